// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

extension SessionHandler {
    // MARK: Ours

    func sendRequest(
        _ message: ByteBuffer,
        on id: SessionConnectionID,
        _ token: UInt64,
        timeout: Duration,
        _ continuation: SessionAsk.Continuation<SessionAsk.Response>
    ) {
        var failure: SessionSendError?
        change { machine, _, actions in
            do throws(SessionSendError) {
                let request = try machine.sendRequest(message, on: id, timeLeft: timeout, into: &actions)
                addAsk(request, SessionAsk(token: token, waiter: .response(continuation)), timeout: timeout)
            } catch {
                failure = error
            }
        }
        if let failure { continuation.resume(returning: .failure(AppServiceError(failure))) }
    }

    func responded(_ request: SessionRequestID, _ message: ByteBuffer, _ receipt: SessionReceipt) {
        guard case .response(let continuation) = finishAsk(request)?.waiter else { return consumed(receipt) }
        // Somebody waits for it, so it is taken. What lies in the budget is held until it is decoded.
        let isLarge = receipt.assemblyBytes > 0
        if !isLarge { consumed(receipt) }
        continuation.resume(returning: .success(.init(message: message, receipt: isLarge ? receipt : nil)))
    }

    // MARK: The peer's

    func deliver(_ request: SessionRequestID, _ message: ByteBuffer, timeLeft: Duration?, _ receipt: SessionReceipt) {
        guard let link, let inbox = inboxes[request.connection] else {
            fail(request, SessionFailure(.appServiceConnectionClosed))
            return consumed(receipt)
        }
        let exchange = SessionExchange(request, message: message, timeLeft: timeLeft, receipt: receipt, link: link)
        // First the entry: the app may be quick.
        exchanges[request] = (exchange, nil)
        exchanges[request]?.ticket = inbox.deliver(exchange)
    }

    func cancelled(_ request: SessionRequestID) {
        guard let (exchange, ticket) = exchanges.removeValue(forKey: request) else { return }
        if let ticket { inboxes[request.connection]?.withdraw(ticket) }
        if exchange.takeBytes() != nil { consumed(exchange.receipt) }
        exchange.cancellation.cancel()
    }

    func respond(
        to request: SessionRequestID,
        _ message: ByteBuffer,
        _ continuation: CheckedContinuation<Result<Void, AppServiceError>, Never>
    ) {
        var progress = Result<SessionResponseProgress, AppServiceError>.success(.dropped)
        change { machine, _, actions in
            do throws(SessionSendError) {
                progress = .success(try machine.respond(to: request, message, into: &actions))
            } catch {
                progress = .failure(AppServiceError(error))
            }
            if case .success(.waiting) = progress { responses[request] = continuation }
        }
        switch progress {
        case .success(let progress):
            exchanges[request] = nil
            switch progress {
            case .sent: continuation.resume(returning: .success(()))
            case .waiting: break
            case .dropped: continuation.resume(returning: .failure(AppServiceError(.cancelled, message: "the caller no longer waits")))
            }
        case .failure(let error): continuation.resume(returning: .failure(error))
        }
    }

    func fail(_ request: SessionRequestID, _ failure: SessionFailure) {
        exchanges[request] = nil
        change { machine, _, actions in machine.failRequest(request, failure, into: &actions) }
    }

    // MARK: Both

    func consumed(_ receipt: SessionReceipt) {
        change { machine, _, actions in machine.consumed(receipt, into: &actions) }
    }
}

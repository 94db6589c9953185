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
        feed { machine, actions in
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
        guard case .response(let continuation) = asks.remove(request)?.waiter else { return consumed(receipt) }
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
        let deadline = timeLeft.map { instant + $0 }
        // Who waits for it takes it, which then need not be said. What lies in the budget is held until it is decoded.
        let waiter = receipt.assemblyBytes == 0 ? inbox.takeWaiter() : nil
        if waiter != nil { consumed(receipt) }
        let exchange = SessionExchange(
            request,
            message: message,
            deadline: deadline,
            receipt: waiter == nil ? receipt : nil,
            link: link
        )
        exchanges[request] = exchange
        if let waiter { waiter.resume(returning: exchange) } else { inbox.deliver(exchange) }
    }

    func cancelled(_ request: SessionRequestID) {
        guard let exchange = exchanges.removeValue(forKey: request) else { return }
        if exchange.takeBytes() != nil, let receipt = exchange.receipt { consumed(receipt) }
        exchange.cancellation.cancel()
        inboxes[request.connection]?.requestWasCancelled()
    }

    func respond(
        to request: SessionRequestID,
        _ message: ByteBuffer,
        _ continuation: SingleContinuation<Result<Void, AppServiceError>>?
    ) {
        let answer = SentAnswer(bytes: message.readableBytes, continuation: continuation)
        var result = Result<SessionResponseProgress, AppServiceError>.success(.dropped)
        feed { machine, actions in
            do throws(SessionSendError) {
                let progress = try machine.respond(to: request, message, into: &actions)
                result = .success(progress)
                if progress == .waiting { responses[request] = answer }
            } catch {
                result = .failure(AppServiceError(error))
            }
        }
        switch result {
        case .success(let progress):
            exchanges[request] = nil
            switch progress {
            case .sent: answer.finish(.success(()), link)
            case .waiting: break
            case .dropped: answer.finish(.failure(AppServiceError(.cancelled, message: "the caller no longer waits")), link)
            }
        case .failure(let error):
            answer.finish(.failure(error), link)
            // Who waits may give another answer.
            if continuation == nil { fail(request, error.failure) }
        }
    }

    func fail(_ request: SessionRequestID, _ failure: SessionFailure) {
        exchanges[request] = nil
        change { machine, _, actions in machine.failRequest(request, failure, into: &actions) }
    }

    // MARK: Both

    func consumed(_ receipt: SessionReceipt) {
        feed { machine, actions in machine.consumed(receipt, into: &actions) }
    }
}

/// An answer on its way.
struct SentAnswer {
    let bytes: Int
    /// Who waits until it has left.
    let continuation: SingleContinuation<Result<Void, AppServiceError>>?

    func finish(_ result: Result<Void, AppServiceError>, _ link: SessionLink?) {
        if let continuation {
            continuation.resume(returning: result)
        } else {
            link?.answerIsDone(bytes)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

extension SessionHandler {
    // MARK: Sent requests

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

    func responded(_ request: SessionRequestID, _ message: ByteBuffer, _ receipt: MessageCredit) {
        guard case .response(let continuation) = asks.remove(request)?.waiter else { return credit(receipt) }
        // A task waits for the response, so a small message is credited at once. A large one occupies the budget until it is decoded.
        let isLarge = receipt.assemblyBytes > 0
        if !isLarge { credit(receipt) }
        continuation.resume(returning: .success(.init(message: message, receipt: isLarge ? receipt : nil)))
    }

    // MARK: Received requests

    func cancelled(_ request: SessionRequestID) {
        guard let exchange = removeExchange(request) else { return }
        if let receipt = exchange.cancel() { consumed(receipt) }
        inboxes[request.connection]?.requestWasCancelled()
    }

    func respond(
        to request: SessionRequestID,
        _ message: ByteBuffer,
        _ place: AnswerPlace,
        _ continuation: SessionAsk.Continuation<Void>?
    ) {
        let answer = SentAnswer(place: place, continuation: continuation)
        let now = now
        var result = Result<SessionResponseProgress, AppServiceError>.success(.dropped)
        feed { machine, actions in
            do throws(SessionSendError) {
                let progress = try machine.respond(to: request, message, at: now, into: &actions)
                result = .success(progress)
                if progress == .waiting { responses[request] = answer }
            } catch {
                result = .failure(AppServiceError(error))
            }
        }
        switch result {
        case .success(let progress):
            removeExchange(request)
            switch progress {
            case .sent: finish(answer, .success(()))
            case .waiting: break
            case .dropped: finish(answer, .failure(AppServiceError(.cancelled, message: "the caller no longer waits")))
            }
        case .failure(let error):
            finish(answer, .failure(error))
            // A waiting caller receives the error and may give another response. Without one, the peer receives the failure.
            if continuation == nil { fail(request, error.failure) }
        }
    }

    /// Ends a response that was written to the stream (which may still buffer it), or that will not be sent.
    func finish(_ answer: SentAnswer, _ result: Result<Void, AppServiceError>) {
        if case .success = result { leaving += answer.place } else { release(answer.place) }
        answer.continuation?.resume(returning: result)
    }

    @discardableResult
    private func removeExchange(_ request: SessionRequestID) -> SessionExchange? {
        guard let exchange = exchanges.removeValue(forKey: request) else { return nil }
        pending.removeRequest()
        return exchange
    }

    func fail(_ request: SessionRequestID, _ failure: SessionFailure) {
        if let receipt = removeExchange(request)?.dropMessage() { consumed(receipt) }
        change { machine, _, actions in machine.failRequest(request, failure, into: &actions) }
    }

    // MARK: Both directions

    /// Returns the credit of a message that was decoded or dropped.
    func consumed(_ receipt: MessageCredit) {
        pending.removeMessage(receipt.pendingBytes)
        credit(receipt)
    }

    func credit(_ receipt: MessageCredit) {
        feed { machine, actions in machine.consumed(receipt, into: &actions) }
    }
}

/// A response that is being sent.
struct SentAnswer {
    let place: AnswerPlace
    /// Resumed when the response was written to the stream.
    let continuation: SessionAsk.Continuation<Void>?
}

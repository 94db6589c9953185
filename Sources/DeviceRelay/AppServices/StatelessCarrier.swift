// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol
import Synchronization

/// The result of a stateless message.
package enum StatelessAnswer: Sendable {
    /// The service's response.
    case response(ValueSet)
    /// The service rejected the caller, or this message.
    case refused(AppServiceError)
    /// The service failed, or did not answer.
    case failed(AppServiceError)
}

extension AppServiceConnection {
    /// Creates a connection with one request: a stateless message. It closes with the response.
    /// - Parameters:
    ///   - responseBytes: The maximum size of the encoded response.
    ///   - answer: Called once, at the latest when the service that gets this connection has returned.
    package convenience init(
        info: AppServiceInfo,
        stateless message: ValueSet,
        responseBytes: Int,
        answer: @escaping @Sendable (StatelessAnswer) -> Void
    ) {
        let inbox = AppServiceInbox()
        let carrier = StatelessCarrier(message, responseBytes: responseBytes, inbox: inbox, answer: answer)
        self.init(info: info, carrier: carrier, inbox: inbox)
        inbox.deliver(carrier)
    }
}

/// Carries one message to a service, and its response back.
private final class StatelessCarrier: AppServiceCarrier, AppServiceExchange {
    private struct State {
        var exchange: AppServiceExchangeStateMachine<ValueSet, @Sendable () -> Void>
        /// Called once.
        var answer: (@Sendable (StatelessAnswer) -> Void)?
    }

    let deadline: ContinuousClock.Instant? = nil
    private let responseBytes: Int
    private let inbox: AppServiceInbox
    private let state: Mutex<State>

    init(_ message: ValueSet, responseBytes: Int, inbox: AppServiceInbox, answer: @escaping @Sendable (StatelessAnswer) -> Void) {
        self.responseBytes = responseBytes
        self.inbox = inbox
        self.state = Mutex(State(exchange: .init(message: message), answer: answer))
    }

    // MARK: The connection

    // A command may travel on several paths.
    var isDirect: Bool { false }
    func accept() {}

    func send(_ message: ValueSet, timeout: Duration) async throws(AppServiceError) -> ValueSet {
        throw AppServiceError(.notSupported, message: "this connection carries one stateless message; to send, open a connection back")
    }

    func finish(_ error: (any Error)?) {
        switch error {
        case nil: settle(.failed(AppServiceError(.failure, message: "the service ended without an answer")))
        case let error as AppServiceError: settle(.refused(error))
        case .some: settle(.failed(AppServiceError(.failure, message: "the service failed")))
        }
    }

    // MARK: The request

    // A command can only be cancelled before it is handled.
    var isCancelled: Bool { false }
    func onCancel(_ body: @escaping @Sendable () -> Void) {}

    func takeMessage(onCancel body: (@Sendable () -> Void)?) -> TakenMessage {
        state.withLock { $0.exchange.takeMessage(onCancel: nil) }.map { TakenMessage.message($0) } ?? .gone
    }

    // The command's limits bound the size of the message.
    func reserveMemory() -> Bool { true }

    func respond(_ message: ValueSet) async throws(AppServiceError) {
        guard state.withLock({ $0.exchange.beginAnswer() }) else { throw .alreadyAnswered }
        do throws(AppServiceError) {
            try send(message)
        } catch {
            if error.code == .messageTooLarge || error.code == .invalidMessage { state.withLock { $0.exchange.answerFailed() } }
            throw error
        }
        state.withLock { $0.exchange.answerLeft() }
    }

    func fail(_ error: AppServiceError, isDecision: Bool) {
        if state.withLock({ $0.exchange.fail() }) == .send { settle(isDecision ? .refused(error) : .failed(error)) }
    }

    func complete(_ answer: HandlerAnswer) -> CompletedExchange {
        guard state.withLock({ $0.exchange.complete() }) == .send else { return .answered }
        switch answer {
        case .failure(let error, let isDecision): settle(isDecision ? .refused(error) : .failed(error))
        case .message(let message):
            do throws(AppServiceError) {
                try send(message)
            } catch {
                settle(.refused(error))
            }
        }
        return .answered
    }

    func sendCompleted(_ message: ValueSet) {}

    private func send(_ message: ValueSet) throws(AppServiceError) {
        let size: Int
        do throws(ValueSetError) {
            size = try message.encodedSize()
        } catch {
            throw AppServiceError(.invalidMessage, message: "the answer cannot be encoded: \(error)", cause: error)
        }
        guard size <= responseBytes else {
            let excess = LimitExceeded(limit: .replyBytes, allowed: responseBytes, requested: size)
            throw AppServiceError(.messageTooLarge, message: "\(excess); answer with less, or open a connection back", cause: excess)
        }
        guard settle(.response(message)) else { throw AppServiceClosure(.completed).error }
    }

    @discardableResult
    private func settle(_ outcome: StatelessAnswer) -> Bool {
        guard let answer = state.withLock({ $0.answer.take() }) else { return false }
        answer(outcome)
        inbox.close(AppServiceClosure(.completed))
        return true
    }
}

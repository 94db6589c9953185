// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol
import Synchronization

/// What became of a stateless message.
package enum StatelessAnswer: Sendable {
    /// The service's answer.
    case response(ValueSet)
    /// The service said no: to the caller, or to this message.
    case refused(AppServiceError)
    /// The service failed, or said nothing.
    case failed(AppServiceError)
}

extension AppServiceConnection {
    /// A connection with one request, which came as a stateless message. It closes with the answer.
    /// - Parameters:
    ///   - responseBytes: The most that an answer may have, encoded.
    ///   - answer: Called once; at the latest when the service that is given this connection has returned.
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

/// Carries one message to a service, and its answer back.
private final class StatelessCarrier: AppServiceCarrier, AppServiceExchange {
    let deadline: ContinuousClock.Instant? = nil
    let cancellation = RequestCancellation()
    private let responseBytes: Int
    private let inbox: AppServiceInbox
    private let message: Mutex<ValueSet?>
    private let answer: Mutex<(@Sendable (StatelessAnswer) -> Void)?>

    init(_ message: ValueSet, responseBytes: Int, inbox: AppServiceInbox, answer: @escaping @Sendable (StatelessAnswer) -> Void) {
        self.responseBytes = responseBytes
        self.inbox = inbox
        self.message = Mutex(message)
        self.answer = Mutex(answer)
    }

    func accept() {}

    func send(_ message: ValueSet, timeout: Duration) async throws(AppServiceError) -> ValueSet {
        throw AppServiceError(.notSupported, message: "this connection carries one stateless message; to send, open a connection back")
    }

    // The command's limits bound it.
    func makeRoomAtOnce() -> Bool { true }
    func makeRoom() {}

    func take() throws(ValueSetError) -> ValueSet? {
        message.withLock { message in
            defer { message = nil }
            return message
        }
    }

    func respondAtOnce(_ message: ValueSet) -> Bool { false }

    func respond(_ message: ValueSet) async throws(AppServiceError) {
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

    func fail(_ error: AppServiceError, isDecision: Bool) { settle(isDecision ? .refused(error) : .failed(error)) }

    func finish(_ error: (any Error)?) {
        switch error {
        case nil: settle(.failed(AppServiceError(.failure, message: "the service ended without an answer")))
        case let error as AppServiceError: settle(.refused(error))
        case .some: settle(.failed(AppServiceError(.failure, message: "the service failed")))
        }
    }

    @discardableResult
    private func settle(_ outcome: StatelessAnswer) -> Bool {
        let answer = answer.withLock { answer in
            defer { answer = nil }
            return answer
        }
        guard let answer else { return false }
        answer(outcome)
        inbox.close(AppServiceClosure(.completed))
        return true
    }
}

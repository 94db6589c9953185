// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// A request of the peer as its carrier knows it. It gets one answer.
package protocol AppServiceExchange: AnyObject, Sendable {
    /// When the caller stops waiting.
    var deadline: ContinuousClock.Instant? { get }
    /// Whether the caller no longer waits.
    var isCancelled: Bool { get }
    /// Runs the closure when the caller no longer waits, at once if that is so already. Never after the answer.
    func onCancel(_ body: @escaping @Sendable () -> Void)

    /// Takes the message out, once, if there is memory for it. If it does not decode, the caller is told.
    /// - Parameter body: As `onCancel`, if the message is taken.
    func takeMessage(onCancel body: (@Sendable () -> Void)?) -> TakenMessage
    /// Waits until there is memory for the message. If there can never be so much, the caller is told.
    /// - Returns: Whether the message can be taken; not if the task is cancelled before.
    func reserveMemory() async -> Bool

    /// Answers, and returns when the answer has left. Throws `messageTooLarge` or `invalidMessage` if another answer may still be given, and
    /// `notSupported` if there was one.
    func respond(_ message: ValueSet) async throws(AppServiceError)
    /// Says that there is no answer: because the app decided so, or because it did not decide. Without effect after another answer.
    func fail(_ error: AppServiceError, isDecision: Bool)
    /// The handler is done, and this is its answer unless there was one. Does not wait for it to leave; if it cannot be sent, the caller is told
    /// why.
    func complete(_ answer: HandlerAnswer) -> CompletedExchange
    /// Sends the answer that has to wait for memory.
    func sendCompleted(_ message: ValueSet) async
}

/// What a handler returned or threw.
package enum HandlerAnswer: Sendable {
    case message(ValueSet)
    /// The app decided so, or failed.
    case failure(AppServiceError, isDecision: Bool)
}

/// What became of taking a message.
package enum TakenMessage: Sendable {
    case message(ValueSet)
    /// It has to wait for memory: `reserveMemory`, and then again.
    case needsMemory
    /// It was taken before, or went with its request.
    case gone
}

/// What became of a request whose handler is done.
package enum CompletedExchange: Sendable {
    /// It has its answer, now or from before.
    case answered
    /// There is no memory for the answer yet: `sendCompleted` follows.
    case needsMemory
    /// The caller did not wait any longer.
    case cancelled
}

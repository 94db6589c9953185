// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// A received request, as its carrier implements it. It gets one response.
package protocol AppServiceExchange: AnyObject, Sendable {
    /// When the caller stops waiting.
    var deadline: ContinuousClock.Instant? { get }
    /// Whether the caller no longer waits.
    var isCancelled: Bool { get }
    /// Runs the closure when the caller no longer waits, or at once if the request is already cancelled. The closure never runs after the
    /// response.
    func onCancel(_ body: @escaping @Sendable () -> Void)

    /// Takes the message out, once, if there is memory for it. If the message does not decode, the caller receives an error.
    /// - Parameter body: Used as in `onCancel`, if the message is taken.
    func takeMessage(onCancel body: (@Sendable () -> Void)?) -> TakenMessage
    /// Waits until there is memory for the message. If the message exceeds the whole budget, the caller receives an error.
    /// - Returns: Whether the message can be taken. False if the task is cancelled before.
    func reserveMemory() async -> Bool

    /// Sends the response, and returns when it has left this device.
    /// - Throws: `messageTooLarge` or `invalidMessage`: another response may still be given. `notSupported` if a response was given before.
    func respond(_ message: ValueSet) async throws(AppServiceError)
    /// Answers with an error. It has no effect after another response.
    /// - Parameter isDecision: Whether the app chose this error. Otherwise the app gave no response.
    func fail(_ error: AppServiceError, isDecision: Bool)
    /// Ends the request with the handler's result, unless a response was given before. It does not wait until the response has left. If the
    /// response cannot be sent, the caller receives the reason.
    func complete(_ answer: HandlerAnswer) -> CompletedExchange
    /// Sends a response that has to wait for memory.
    func sendCompleted(_ message: ValueSet) async
}

/// The result of a handler.
package enum HandlerAnswer: Sendable {
    case message(ValueSet)
    /// An error that the app chose (`isDecision`), or a failure of the handler.
    case failure(AppServiceError, isDecision: Bool)
}

/// The result of `takeMessage`.
package enum TakenMessage: Sendable {
    case message(ValueSet)
    /// There is no memory yet. Call `reserveMemory`, and then `takeMessage` again.
    case needsMemory
    /// The message was taken before, or dropped with its request.
    case gone
}

/// The result of `complete`.
package enum CompletedExchange: Sendable {
    /// The request has its response, from this call or an earlier one.
    case answered
    /// There is no memory for the response yet. Call `sendCompleted`.
    case needsMemory
    /// The caller no longer waits.
    case cancelled
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// What an app service connection stands on: a session, or one stateless message.
package protocol AppServiceCarrier: AnyObject, Sendable {
    /// The app has begun to use the connection. May be called again.
    func accept()
    /// Sends a request and waits for the answer.
    func send(_ message: ValueSet, timeout: Duration) async throws(AppServiceError) -> ValueSet
    /// The app is done with the connection: without an error, or because its service threw one. May be called again.
    func finish(_ error: (any Error)?)
}

/// A request of the peer as its carrier knows it. It gets one answer.
package protocol AppServiceExchange: AnyObject, Sendable {
    /// When the caller stops waiting.
    var deadline: ContinuousClock.Instant? { get }
    /// The caller's wish not to wait any longer.
    var cancellation: RequestCancellation { get }
    /// Sets the memory aside that the message takes when it is decoded.
    /// - Returns: False if it has to wait for that: then `makeRoom`.
    func makeRoomAtOnce() -> Bool
    /// The same, in turn. Throws `messageTooLarge` if there can never be so much, and `cancelled` when the task is cancelled before.
    func makeRoom() async throws(AppServiceError)
    /// Takes the message out, for which there is room; `nil` if it is gone with its request.
    func take() throws(ValueSetError) -> ValueSet?
    /// Answers, and does not wait for the answer to leave. If it cannot be sent, the caller is told why.
    /// - Returns: False, and nothing was done, if there is no memory for it yet: then `respond`.
    func respondAtOnce(_ message: ValueSet) -> Bool
    /// Answers, and returns when the answer has left. Throws `messageTooLarge` or `invalidMessage` if another answer may still be given.
    func respond(_ message: ValueSet) async throws(AppServiceError)
    /// Says that there is no answer: because the app decided so, or because it did not decide.
    func fail(_ error: AppServiceError, isDecision: Bool)
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol

/// A received request. If it is released without a response, it is answered with `failure`.
public final class AppServiceRequest: Sendable {
    /// The message of the caller.
    public let message: ValueSet
    /// When the caller stops waiting; `nil` if the caller did not state it.
    public var deadline: ContinuousClock.Instant? { exchange.deadline }
    /// Whether the caller no longer waits.
    public var isCancelled: Bool { exchange.isCancelled }

    private let exchange: any AppServiceExchange

    init(message: ValueSet, exchange: any AppServiceExchange) {
        self.message = message
        self.exchange = exchange
    }

    deinit {
        exchange.fail(AppServiceError(.failure, message: "the service let the request go unanswered"), isDecision: false)
    }

    /// Sends the response, and returns when it has left this device.
    /// - Throws: `messageTooLarge` or `invalidMessage`: another response may still be given. `cancelled` or `appServiceConnectionClosed` if
    ///   the caller no longer waits. `notSupported` if a response was given before.
    public func respond(_ message: ValueSet) async throws(AppServiceError) { try await exchange.respond(message) }

    /// Answers with an error: its code and message. It has no effect after another response.
    public func refuse(_ error: AppServiceError) { exchange.fail(error, isDecision: true) }

    /// Runs the closure when the caller no longer waits, or at once if the request is already cancelled. The closure never runs after the
    /// response.
    public func onCancel(_ body: @escaping @Sendable () -> Void) { exchange.onCancel(body) }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol

/// A message that wants an answer. One that is dropped without is answered with `failure`.
public final class AppServiceRequest: Sendable {
    /// What the caller says.
    public let message: ValueSet
    /// When the caller stops waiting; `nil` if it did not say.
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

    /// Answers, and returns when the answer has left this device.
    /// - Throws: `messageTooLarge` or `invalidMessage`, and another answer may be given; `cancelled` or `appServiceConnectionClosed` when
    ///   nobody wants an answer any more; `notSupported` when there was one.
    public func respond(_ message: ValueSet) async throws(AppServiceError) { try await exchange.respond(message) }

    /// Answers that there is no answer, with the error's code and message. Without effect after another answer.
    public func refuse(_ error: AppServiceError) { exchange.fail(error, isDecision: true) }

    /// Runs the closure when the caller no longer waits, at once if that is so already. Never after the answer.
    public func onCancel(_ body: @escaping @Sendable () -> Void) { exchange.onCancel(body) }
}

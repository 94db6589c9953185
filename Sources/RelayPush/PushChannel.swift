// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// Sends wakes through one provider with one credential.
package protocol PushChannel: Sendable {
    var service: PushService { get }

    /// Sends a wake once. Retries are the caller's (``PushRetry``).
    /// - Parameter registration: A registration of the channel's type.
    func send(_ wake: Wake, to registration: PushRegistration) async -> PushOutcome

    /// Ends the connections. Wakes in flight fail. It must be called once, before the channel is released.
    func shutdown() async
}

/// The outcome of one attempt to send a wake.
package enum PushOutcome: Hashable, Sendable {
    /// The provider accepted the wake. That does not prove that the device receives it.
    case accepted(id: String?)
    /// The registration is no longer valid.
    /// - since: When the provider noticed; `nil` if it does not say.
    case gone(since: Milliseconds?)
    /// The provider rejected the access token or signature. The channel has dropped it and makes another one for the next wake.
    case credentialRejected(reason: String)
    /// The provider accepts the credential but not for the app that it is configured for, so that no wake of this app can arrive.
    case misconfigured(reason: String)
    /// The registration belongs to another credential. Devices choose their registrations, so this says nothing about others.
    case mismatched(reason: String)
    /// The request was wrong. Sending it again would fail in the same way.
    case invalid(reason: String)
    /// The provider asks for a pause.
    /// - scope: What the pause covers.
    /// - wait: Milliseconds; `nil` if the provider does not say.
    case throttled(scope: PushScope, wait: Int64?)
    /// The provider accepted the wake and dropped it. An early retry would fail in the same way.
    case dropped(reason: String)
    /// The provider or the network failed. A later attempt may succeed.
    /// - scope: What the failure covers. If a device chose the address, it covers that registration only.
    case failed(scope: PushScope = .credential, reason: String)
    /// The registration has an address that is not allowed.
    case forbidden(reason: String)
}

/// What a pause or failure covers.
package enum PushScope: Hashable, Sendable {
    /// One registration of one endpoint.
    case registration
    /// All wakes with one credential to one service.
    case credential
}

extension PushOutcome {
    /// The name in metrics.
    var name: String {
        switch self {
        case .accepted: "accepted"
        case .gone: "gone"
        case .credentialRejected: "credentialRejected"
        case .misconfigured: "misconfigured"
        case .mismatched: "mismatched"
        case .invalid: "invalid"
        case .throttled: "throttled"
        case .dropped: "dropped"
        case .failed: "failed"
        case .forbidden: "forbidden"
        }
    }
}

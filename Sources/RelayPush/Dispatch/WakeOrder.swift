// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// Accepts wakes and sends them. Outcomes are reported as ``WakeReport``; the caller does not wait for them.
package protocol WakeSending: Sendable {
    /// Queues a wake. While an order for the same endpoint, credential and class is outstanding, a new order coalesces with it and replaces
    /// it. A push in flight also counts for an order that arrives meanwhile, unless the endpoint has registered again or connected since
    /// the push was sent.
    func send(_ order: WakeOrder) async

    /// Drops the wakes of an endpoint. A push in flight is not repeated.
    func drop(_ endpoint: EndpointID, _ why: WakeReport.NotSent) async
}

/// Identifies the credential of one app at one provider, by the name that the operator gave it.
package struct PushCredentialID: Hashable, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ name: String) { self.description = name }
}

/// The account that a wake counts for. Wakes of one account share one part of a credential's capacity. Any stable key identifies the
/// account.
package struct WakeAccount: Hashable, Sendable {
    private let key: String

    package init(_ key: String) { self.key = key }
}

/// A wake, and the registration that it is sent to.
package struct WakeOrder: Hashable, Sendable {
    package let wake: Wake
    package let account: WakeAccount
    package let registration: PushRegistration
    /// The time of the endpoint's last registration, by the relay's clock.
    package let registered: Milliseconds
    package let credential: PushCredentialID
    /// The sequence number. A newer order has a greater number.
    package let number: Int

    package init(
        _ wake: Wake,
        account: WakeAccount,
        registration: PushRegistration,
        registered: Milliseconds,
        credential: PushCredentialID,
        number: Int = 0
    ) {
        self.wake = wake
        self.account = account
        self.registration = registration
        self.registered = registered
        self.credential = credential
        self.number = number
    }

    func hasRegistration(of other: WakeOrder) -> Bool { registration == other.registration && registered == other.registered }
}

/// The outcome of a wake. Each outstanding wake ends with one report of the first three kinds. The report covers all coalesced orders that
/// are not newer than the order in it.
package enum WakeReport: Hashable, Sendable {
    /// The provider accepted the wake. That does not prove that the device receives it.
    case accepted(WakeOrder, id: String?)
    /// The registration is invalid. It must be deleted if it is still the same as in the order, and was not renewed after `since`.
    case registrationGone(WakeOrder, since: Milliseconds?)
    case notSent(WakeOrder, NotSent)
    /// The provider rejects the credential. Nothing is sent with it for an hour, or until it is replaced.
    case credentialStopped(PushCredentialID, reason: String)

    /// Why a wake was not sent. While commands are pending for the endpoint, the schedule orders the next wake.
    package enum NotSent: Hashable, Sendable {
        case expired
        /// The endpoint connected by itself.
        case connected
        /// Another node of the relay may serve the account, and wakes the endpoint by itself.
        case elsewhere
        /// The endpoint, or the registration for several endpoints, was woken too often.
        /// - wait: Milliseconds until the next one is possible.
        case tooOften(wait: Int64)
        /// Too many wakes are outstanding with the credential, or too many of the account.
        case tooManyWait
        /// There is no such credential.
        case unknownCredential
        /// The credential is stopped.
        /// - wait: Milliseconds until it can be used again.
        case credentialStopped(wait: Int64)
        /// The provider asked for pauses too often, or a pause ends after the wake's expiry.
        /// - wait: Milliseconds until the end of the pause.
        case paused(wait: Int64)
        /// The provider or the network failed too often.
        case failed(reason: String)
        /// The provider accepted the wake and dropped it, for example because notifications are off for the app.
        case dropped(reason: String)
        /// The request was wrong, or its address is not allowed.
        case rejected(reason: String)
        /// The registration belongs to another credential. Nothing is sent to it for an hour.
        case mismatched(reason: String)
        /// The provider reports the registration as invalid since a time before the endpoint's last registration. The registration is kept.
        case registeredSince
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// Takes wakes and sends them. What becomes of them is reported; nothing waits for it.
package protocol WakeSending: Sendable {
    /// Orders for the same endpoint, credential and class coalesce while one is outstanding: the newest counts. A push on its way counts for
    /// an order that comes meanwhile, unless the endpoint has registered anew or connected since.
    func send(_ order: WakeOrder) async

    /// The endpoint needs no wake any more.
    func connected(_ endpoint: EndpointID) async
}

/// The credential of one app at one provider, by the name that the operator gave it.
package struct PushCredentialID: Hashable, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ name: String) { self.description = name }
}

/// Whose wakes share a part of what a credential can send: the account, by any key that does not change.
package struct WakeAccount: Hashable, Sendable {
    private let key: String

    package init(_ key: String) { self.key = key }
}

/// A wake, and how the endpoint is reached.
package struct WakeOrder: Hashable, Sendable {
    package let wake: Wake
    package let account: WakeAccount
    package let registration: PushRegistration
    /// When the endpoint registered last, by the relay's clock.
    package let registered: Milliseconds
    package let credential: PushCredentialID
    /// Of two orders, the newer one has the greater number.
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

/// What became of a wake. Each outstanding wake ends with one report of the first three. It counts for the orders that coalesced and are not
/// newer than its own.
package enum WakeReport: Hashable, Sendable {
    /// The provider accepted it. That is no proof that the device gets it.
    case accepted(WakeOrder, id: String?)
    /// The registration is to be deleted if it is still the order's, and was not renewed after `since`.
    case registrationGone(WakeOrder, since: Milliseconds?)
    case notSent(WakeOrder, NotSent)
    /// The provider rejects the credential. Nothing is sent with it for an hour, or until it is replaced.
    case credentialStopped(PushCredentialID, reason: String)

    /// Why a wake was not sent. While commands wait for the endpoint, the schedule asks for the next one.
    package enum NotSent: Hashable, Sendable {
        case expired
        /// The endpoint connected by itself.
        case connected
        /// The endpoint, or the registration for several endpoints, was woken too often.
        /// - wait: Milliseconds until the next one is possible.
        case tooOften(wait: Int64)
        /// Too many wakes wait for the same credential, or too many of the account's.
        case tooManyWait
        /// There is no such credential.
        case unknownCredential
        /// The credential is stopped, for so many milliseconds.
        case credentialStopped(wait: Int64)
        /// The provider asked for pauses too often, or a pause ends after the wake's expiry.
        /// - wait: Milliseconds until the end of the pause.
        case paused(wait: Int64)
        /// The provider or the network failed too often.
        case failed(reason: String)
        /// The provider took the wake and dropped it, such as while notifications are off for the app.
        case dropped(reason: String)
        /// The request was wrong, or its address is not allowed.
        case rejected(reason: String)
        /// The registration belongs to another credential. Nothing is sent to it for an hour.
        case mismatched(reason: String)
        /// The provider says that the registration was invalid before the endpoint registered last.
        case registeredSince
    }
}

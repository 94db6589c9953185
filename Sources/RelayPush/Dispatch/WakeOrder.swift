// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// Takes wakes and sends them. What becomes of them is reported; nothing waits for it.
package protocol WakeSending: Sendable {
    /// Orders for the same endpoint, credential and class coalesce while one is outstanding: the newest counts.
    func send(_ order: WakeOrder) async

    /// The endpoint needs no wake any more.
    func connected(_ endpoint: EndpointID) async
}

/// The credentials of one app at one provider, by the name that the administrator gave them.
package struct PushCredentialID: Hashable, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ name: String) { self.description = name }
}

/// A wake, and how the endpoint is reached.
package struct WakeOrder: Hashable, Sendable {
    package let wake: Wake
    package let registration: PushRegistration
    package let credential: PushCredentialID

    package init(_ wake: Wake, registration: PushRegistration, credential: PushCredentialID) {
        self.wake = wake
        self.registration = registration
        self.credential = credential
    }
}

/// What became of a wake. Each outstanding wake ends with one report of the first three; orders that coalesced share it.
package enum WakeReport: Hashable, Sendable {
    /// The provider took it. That is no proof that the device gets it.
    case accepted(WakeOrder, id: String?)
    /// The registration is to be deleted if it is still the order's, and was not renewed after `since`.
    case registrationGone(WakeOrder, since: Milliseconds?)
    case notSent(WakeOrder, NotSent)
    /// The provider rejects the credentials. Nothing is sent with them for an hour, or until they are replaced.
    case credentialStopped(PushCredentialID, reason: String)

    /// Why a wake was not sent. While commands wait for the endpoint, the schedule asks for the next one.
    package enum NotSent: Hashable, Sendable {
        case expired
        /// The endpoint connected by itself.
        case connected
        /// Too many wakes wait for the same credentials.
        case tooManyWait
        /// There are no such credentials.
        case unknownCredential
        /// The credentials are stopped.
        case credentialStopped
        /// The provider asked for pauses too often, or a pause ends after the wake's expiry.
        case paused
        /// The provider or the network failed too often, or dropped the wake.
        case failed(reason: String)
        /// The request was wrong, or its address is not allowed.
        case rejected(reason: String)
        /// The registration belongs to other credentials.
        case mismatched(reason: String)
    }
}

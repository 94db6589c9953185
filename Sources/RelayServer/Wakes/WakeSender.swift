// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// Sends wakes through the push services. The core decides when; the sender knows the providers, their credentials and their limits.
package protocol WakeSender: Sendable {
    /// The apps that it can wake now. The core asks after each outcome, and every second.
    var wakeable: WakeableApps { get }

    /// Sends a wake. Never blocks.
    /// - Parameter report: called at most once, from any thread but never within this call. The sender retries by itself until
    ///   `request.expires`; the core sends its next wake by the schedule in any case, also without a report.
    func wake(_ request: WakeRequest, report: @escaping @Sendable (WakeOutcome) -> Void)

    /// The endpoint has connected. Wakes for it that were not sent yet are not needed.
    func connected(_ endpoint: EndpointID, of account: AccountID)

    /// Another node may serve the account, and sends its wakes: those that were not sent yet would be second ones. There are no reports of
    /// them.
    func forget(_ account: AccountID)

    /// Whether wakes of the account have no outcome yet.
    func hasWakes(of account: AccountID) -> Bool
}

/// One wake.
package struct WakeRequest: Hashable, Sendable {
    package var account: AccountID
    package var payload: WakePayload
    package var appID: String
    package var displayName: String
    package var alert: WakeAlert
    package var channel: PushRegistration
    /// When the channel was registered.
    package var registered: Milliseconds
    /// From this time on the wake is useless: nothing waits any more.
    package var expires: Milliseconds

    package init(
        account: AccountID,
        payload: WakePayload,
        appID: String,
        displayName: String,
        alert: WakeAlert = .general,
        channel: PushRegistration,
        registered: Milliseconds,
        expires: Milliseconds
    ) {
        self.account = account
        self.payload = payload
        self.appID = appID
        self.displayName = displayName
        self.alert = alert
        self.channel = channel
        self.registered = registered
        self.expires = expires
    }
}

/// What became of a wake.
package enum WakeOutcome: Hashable, Sendable {
    /// The provider has taken it. This does not say that the device has received it.
    case accepted
    /// The provider no longer knows the channel, since a time if the provider names one.
    case gone(since: Milliseconds?)
    /// It was not sent. The reason contains no token and no content.
    case failed(reason: String)
    /// The wake was refused for a reason that lasts until the endpoint registers another channel, or the operator repairs something.
    /// - until: when to try again, if not by the schedule.
    case refused(until: Milliseconds?)
    /// The provider or a limit allows no wake before a time.
    case suppressed(until: Milliseconds)
}

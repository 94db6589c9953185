// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The stored push registration of an endpoint, and the wakes that were sent to it. Times are milliseconds since 1970.
package struct PushRow: Hashable, Sendable {
    package var endpoint: EndpointID
    package var account: AccountID
    package var appID: String
    package var displayName: String
    package var channel: PushRegistration
    package var registered: Int64
    /// Whether the alert of a wake may name the device and the app that launch.
    package var showsNames = false
    /// Whether the provider no longer accepts it.
    package var isGone = false
    /// Whether the last wake was refused for a reason that lasts. The relay goes on trying, and says to no one that it can wake the endpoint
    /// until a provider accepts a wake.
    package var isRefused = false
    package var schedule = WakeSchedule()
    /// When the provider accepted a wake; `nil` if it has accepted none since the endpoint was last connected.
    package var accepted: Int64?
    /// The provider takes no wake before this time.
    package var suppressed: Int64?
    /// How long the endpoint took to connect after the last wake that it answered.
    package var response: Int64?
    /// When there is something to do: a wake, or a change of the registration's state.
    package var due: Int64?

    package init(
        endpoint: EndpointID,
        account: AccountID,
        appID: String,
        displayName: String,
        channel: PushRegistration,
        registered: Int64
    ) {
        self.endpoint = endpoint
        self.account = account
        self.appID = appID
        self.displayName = displayName
        self.channel = channel
        self.registered = registered
        self.due = nextStateChange(after: registered)
    }
}

// MARK: The registration

extension PushRow {
    /// How long a channel URI of the Windows Notification Service is valid.
    private static let lifeOfWNS: Int64 = 30 * 86_400_000
    /// How long before the end of a channel URI it should be renewed.
    private static let renewalOfWNS: Int64 = 3 * 86_400_000
    /// When a token of another provider should be registered again. Apps do so at each start.
    private static let renewal: Int64 = 30 * 86_400_000
    private static let life: Int64 = 60 * 86_400_000

    /// When the registration should and when it must be repeated; `nil` for a type that does not expire.
    private var expiry: (expiring: Int64, expired: Int64)? {
        switch channel {
        case .polling, .unknown: nil
        case .wns: (registered + Self.lifeOfWNS - Self.renewalOfWNS, registered + Self.lifeOfWNS)
        case .apns, .fcm, .webPush: (registered + Self.renewal, registered + Self.life)
        }
    }

    /// The state that the endpoint is told: a registration through which the relay cannot wake it is no registration.
    func state(at now: Int64, _ rules: RelayRules) -> RelayMessage.NotificationsState.State {
        takesWakes(at: now) && !isWakeable(at: now, rules) ? .unregistered : state(at: now)
    }

    /// The state by time alone.
    func state(at now: Int64) -> RelayMessage.NotificationsState.State {
        if isGone { return .unregistered }
        guard let expiry else { return .registered }
        return now >= expiry.expired ? .expired : now >= expiry.expiring ? .expiring : .registered
    }

    func nextStateChange(after now: Int64) -> Int64? {
        guard !isGone, let expiry else { return nil }
        return [expiry.expiring, expiry.expired].first { $0 > now }
    }

    /// Whether a wake would reach the endpoint.
    func isWakeable(at now: Int64, _ rules: RelayRules) -> Bool {
        takesWakes(at: now) && !isRefused && channel.kind.map { rules.wakeable.canWake($0, appID) } ?? false
    }

    /// Whether the relay tries to wake the endpoint.
    func takesWakes(at now: Int64) -> Bool {
        guard let kind = channel.kind, kind != .polling else { return false }
        let state = state(at: now)
        return state == .registered || state == .expiring
    }

    /// Whether the relay has a credential for the app at the push service.
    func hasCredential(_ rules: RelayRules) -> Bool { channel.kind.map { rules.wakeable.hasCredential($0, appID) } ?? false }

    /// How soon the endpoint is expected to connect, as far as that is known.
    var expectedWithin: Milliseconds? {
        if case .polling(let interval) = channel { return interval }
        return response.map { Milliseconds(clamping: $0) }
    }
}

// MARK: Wakes

extension PushRow {
    /// Whether a wake of the last minutes may still be answered.
    func isOutstanding(at now: Int64) -> Bool {
        guard let last = schedule.last, accepted != nil else { return false }
        return now < last.time + last.urgency.interval
    }

    /// Until when an urgent wake that a provider has accepted may still be answered; `nil` if there is none.
    func wakingEnd(at now: Int64) -> Int64? {
        guard !isGone, isWoken, let accepted, schedule.last?.urgency == .urgent else { return nil }
        let end = accepted + WakePayload.Urgency.urgent.interval
        return now < end ? end : nil
    }

    /// When the next wake may be sent: `now` or earlier means at once.
    func nextWake(_ urgency: WakePayload.Urgency, at now: Int64) -> Int64 {
        max(schedule.next(urgency) ?? now, suppressed ?? 0)
    }

    /// A wake is sent. The next one follows unless the endpoint connects.
    mutating func sent(_ urgency: WakePayload.Urgency, at now: Int64) {
        schedule.sent(urgency, at: now)
        setDue(nextWake(urgency, at: now), now: now)
    }

    mutating func setDue(_ wake: Int64?, now: Int64) {
        due = [wake, nextStateChange(after: now)].compactMap { $0 }.min()
    }

    /// Whether a provider has accepted the last wake.
    var isWoken: Bool {
        guard let accepted, let last = schedule.last else { return false }
        return accepted >= last.time
    }

    /// Forgets a wake that may have been lost when the relay ended, so that it is sent again.
    mutating func forgetLostWake(start: Int64) {
        if let last = schedule.last, last.time < start, !isWoken { schedule = WakeSchedule() }
    }

    /// The endpoint has connected.
    /// - Returns: whether anything has changed.
    mutating func connected(at now: Int64) -> Bool {
        let before = self
        if let accepted { response = max(0, now - accepted) }
        schedule.connected()
        (accepted, suppressed) = (nil, nil)
        setDue(nil, now: now)
        return self != before
    }
}

/// Identifies a push registration in the whole store.
package struct PushKey: Hashable, Sendable {
    package var account: AccountID
    package var endpoint: EndpointID
}

/// A push registration whose endpoint may not have been woken since it was last connected.
package struct UnwokenPush: Hashable, Sendable {
    package var key: PushKey
    /// Whether commands wait for the endpoint.
    package var waits: Bool
}

/// The most urgent commands that wait for an endpoint.
package struct WaitingCommands: Hashable, Sendable {
    package var urgency: WakePayload.Urgency
    /// When the last of them expires.
    package var expires: Int64
}

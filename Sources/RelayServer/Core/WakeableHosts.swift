// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The connected hosts that have a push registration: what they know about it, and which of them give no sign of life. Without I/O and
/// clock.
struct WakeableHosts: Sendable {
    /// How long a host may leave an offer without any sign of life before it is woken. A connection that was lost has the same time to
    /// come back.
    static let silencePeriod: Int64 = 10_000

    private struct Host: Sendable {
        let state: RelayMessage.NotificationsState.State
        /// Whether a wake would reach it.
        let isWakeable: Bool
    }

    private var hosts: [ChannelID: Host] = [:]
    /// When a host that can be woken was offered a command, if it has given no sign of life since.
    private var offerTimes: [ChannelID: Milliseconds] = [:]
    /// The hosts that were woken although they are connected, and have given no sign of life since.
    private var woken: Set<ChannelID> = []

    /// When `takeSilent` may find a host.
    var nextDeadline: Milliseconds? { offerTimes.values.min().map { $0 + Milliseconds(clamping: Self.silencePeriod) } }

    /// Remembers what a host is told about its registration.
    /// - Returns: whether it is told another state than before.
    mutating func tell(_ state: RelayMessage.NotificationsState.State, isWakeable: Bool, to host: ChannelID) -> Bool {
        hosts.updateValue(Host(state: state, isWakeable: isWakeable), forKey: host)?.state != state
    }

    /// A host is offered a command.
    /// - Returns: when it is to be woken if it gives no sign of life; `nil` if it cannot be woken, or that time is known.
    mutating func offered(to host: ChannelID, at now: Milliseconds) -> Milliseconds? {
        guard hosts[host]?.isWakeable ?? false, offerTimes[host] == nil else { return nil }
        offerTimes[host] = now
        return now + Milliseconds(clamping: Self.silencePeriod)
    }

    /// A host gives a sign of life.
    /// - Returns: whether it has answered a wake, as an endpoint does that connects.
    mutating func heard(from host: ChannelID) -> Bool {
        if !offerTimes.isEmpty { offerTimes[host] = nil }
        return !woken.isEmpty && woken.remove(host) != nil
    }

    /// The hosts to wake now, in the order of their ids.
    mutating func takeSilent(at now: Milliseconds) -> [ChannelID] {
        let silent = offerTimes.filter { now.count >= $0.value.count + Self.silencePeriod }.keys.sorted()
        for host in silent { offerTimes[host] = nil }
        woken.formUnion(silent)
        return silent
    }

    mutating func remove(_ host: ChannelID) {
        hosts[host] = nil
        offerTimes[host] = nil
        woken.remove(host)
    }
}

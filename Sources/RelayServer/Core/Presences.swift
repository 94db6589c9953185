// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The presences of an account's endpoints, and what the watchers know of them. Without I/O and clock.
///
/// A presence is a function of the endpoint's rows, its host channel, the credentials of the push services, the time, and what is
/// remembered here.
struct Presences: Sendable {
    /// How long after the start an endpoint that has not connected is `unknown`. It equals the longest silence of a live endpoint.
    static let startingPeriod: Int64 = 75_000

    /// The endpoints whose connection was lost. Their rows say so too, unless the store has failed.
    private var losses: [EndpointID: EndpointRow.Departure] = [:]
    /// What every watcher was told last.
    private var told: [EndpointID: Presence] = [:]
    /// When a presence changes by itself.
    private var changes: [EndpointID: Milliseconds] = [:]
    /// The endpoints whose rows are being read.
    private var reading: Set<EndpointID> = []
    /// The hosts whose channel another process took over.
    private var takeovers: [EndpointID: HostTakeovers] = [:]

    var nextChange: Milliseconds? { changes.values.min() }
    /// The endpoints whose presences the watchers know.
    var toldEndpoints: Dictionary<EndpointID, Presence>.Keys { told.keys }
    /// Whether nothing is remembered that the store does not hold.
    var isEmpty: Bool { losses.isEmpty && told.isEmpty && changes.isEmpty && reading.isEmpty }

    // MARK: Channels

    /// A process has opened a host channel instead of others.
    mutating func connected(
        _ endpoint: EndpointID,
        _ instance: Blob<BlobKinds.Instance>,
        insteadOf others: [Blob<BlobKinds.Instance>],
        at now: Milliseconds
    ) {
        losses[endpoint] = nil
        var takeovers = takeovers[endpoint] ?? HostTakeovers()
        takeovers.opened(instance, insteadOf: others, at: now)
        self.takeovers[endpoint] = takeovers.isEmpty ? nil : takeovers
    }

    /// The connection of a host has ended.
    mutating func lost(_ endpoint: EndpointID, at time: Int64) { losses[endpoint] = .init(reason: .lost, time: time) }

    /// The endpoint is no longer in the account.
    mutating func remove(_ endpoint: EndpointID) {
        losses[endpoint] = nil
        told[endpoint] = nil
        changes[endpoint] = nil
        takeovers[endpoint] = nil
    }

    /// The account has no channels any more. Without them, the store holds all that the presences depend on.
    mutating func lastChannelClosed() {
        let takeovers = takeovers
        self = Presences()
        self.takeovers = takeovers
    }

    // MARK: Presences

    /// The presence that all watchers know after this call.
    /// - Parameters:
    ///   - push: the push registration, if the endpoint has one.
    ///   - connected: since when it has its host channel.
    ///   - servedSince: since when the relay serves the account.
    /// - Returns: also whether the watchers have to be told, and when the presence changes by itself.
    mutating func take(
        of row: EndpointRow,
        _ push: PushRow?,
        connected: Milliseconds?,
        servedSince: Milliseconds,
        _ rules: RelayRules,
        at now: Milliseconds
    ) -> (presence: Presence, isNew: Bool, until: Milliseconds?) {
        let (presence, until) = presence(of: row, push, connected: connected, servedSince: servedSince, rules, at: now)
        changes[row.id] = until
        return (presence, told.updateValue(presence, forKey: row.id) != presence, until)
    }

    private func presence(
        of row: EndpointRow,
        _ push: PushRow?,
        connected: Milliseconds?,
        servedSince: Milliseconds,
        _ rules: RelayRules,
        at now: Milliseconds
    ) -> (Presence, until: Milliseconds?) {
        if let connected {
            let contested = takeovers[row.id]?.contestedUntil(at: now)
            return (Presence(.available, contested == nil ? .connected : .contested, since: connected), contested)
        }
        let wakeability = push?.wakeability(at: now.count, rules) ?? Wakeability()
        if let push, let until = push.wakingEnd(at: now.count) {
            let since = push.accepted.map { Milliseconds(clamping: $0) }
            return (Presence(.discoveringAvailability, .waking, since: since, wakeability), Milliseconds(clamping: until))
        }
        guard row.hasHosted else { return (Presence(.unavailable, .neverSeen), nil) }
        let departure = losses[row.id] ?? row.departure
        let started = servedSince.count + Self.startingPeriod
        if now.count < started, departure.map({ $0.time < servedSince.count }) ?? true {
            return (Presence(.unknown, .relayStarting, since: servedSince), Milliseconds(clamping: started))
        }
        guard let departure else { return (Presence(.unavailable, .lost, wakeability), nil) }
        return (Presence(.unavailable, departure.reason, since: Milliseconds(clamping: departure.time), wakeability), nil)
    }

    // MARK: Reading the rows

    /// - Returns: the endpoints whose rows must be read now. What changes while rows are being read is refreshed after its own
    ///   transaction, which is later.
    mutating func beginReading(_ endpoints: Set<EndpointID>) -> Set<EndpointID> {
        let unread = endpoints.subtracting(reading)
        reading.formUnion(unread)
        return unread
    }

    mutating func endReading(_ endpoints: Set<EndpointID>) { reading.subtract(endpoints) }

    /// The rows could not be read.
    mutating func readAgain(_ endpoints: Set<EndpointID>, at time: Milliseconds) { for endpoint in endpoints { changes[endpoint] = time } }

    /// The endpoints whose presences change now by themselves.
    mutating func takeDue(at now: Milliseconds) -> Set<EndpointID> {
        let due = Set(changes.filter { $0.value <= now }.keys)
        for endpoint in due { changes[endpoint] = nil }
        return due
    }
}

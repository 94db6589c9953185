// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Limits the direct connections that have not proved who they are, so that neighbours cannot fill the listener. Without I/O.
package struct KnockGate {
    /// All together. Then a random one makes room for the next.
    package static let maximum = 64
    package static let ofAnAddress = 8
    /// An address that knocks wrongly this often in a minute may knock once in a second.
    package static let wrongKnocks = EventRate(20, per: 60_000)
    private static let pauseAfterWrong = EventRate(1, per: 1_000)

    package typealias ID = UInt64

    package enum Admission: Hashable, Sendable {
        case refused
        /// - closing: The connection that makes room.
        case admitted(ID, closing: ID?)
    }

    /// An address on the link, or a network of one household elsewhere.
    package enum Source: Hashable, Sendable {
        case neighbour(IPAddress)
        case network(IPNetwork)

        package init(_ address: IPAddress, isOnLink: Bool) {
            self = isOnLink ? .neighbour(address) : .network(address.network)
        }
    }

    private var open: [ID: Source] = [:]
    private var last: ID = 0
    private var wrong = KeyedLimiter<Source>()
    private var paused = KeyedLimiter<Source>()
    /// The addresses that knock too often wrongly, until when.
    private var slow: [Source: Milliseconds] = [:]
    private static let maximumSlow = 1_024

    package init() {}

    package var count: Int { open.count }

    /// A connection from a source.
    /// - Parameter now: An uptime.
    package mutating func admit(
        _ source: Source,
        at now: Milliseconds,
        using random: inout some RandomNumberGenerator
    ) -> Admission {
        guard open.values.count(where: { $0 == source }) < Self.ofAnAddress else { return .refused }
        if let until = slow[source] {
            if until <= now {
                slow[source] = nil
            } else if paused.take(source, Self.pauseAfterWrong, now: now) != nil {
                return .refused
            }
        }
        let closing = open.count >= Self.maximum ? open.keys.sorted().randomElement(using: &random) : nil
        if let closing { open[closing] = nil }
        last &+= 1
        open[last] = source
        return .admitted(last, closing: closing)
    }

    /// The connection has proved itself, or has ended.
    package mutating func leave(_ id: ID) { open[id] = nil }

    /// The connection knocked with a wrong proof.
    package mutating func knockedWrongly(_ id: ID, at now: Milliseconds) {
        guard let source = open.removeValue(forKey: id), let wait = wrong.take(source, Self.wrongKnocks, now: now) else { return }
        if slow.count >= Self.maximumSlow { slow = slow.filter { $0.value > now } }
        guard slow.count < Self.maximumSlow else { return }
        slow[source] = Milliseconds(clamping: now.count + max(60_000, wait.count))
    }
}

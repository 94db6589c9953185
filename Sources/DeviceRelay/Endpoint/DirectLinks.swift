// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The connections over which a sender brings its commands to targets directly, at most one to each target. A way that could not be opened,
/// or that the other side has ended, rests. A connection that this side closes does not: the next command opens another one at once.
struct DirectLinks<Connection: AnyObject> {
    /// How long a target without a way waits at most for the next attempt, in milliseconds.
    static var interval: Int64 { 30_000 }
    private static var shortestRest: Int64 { 2_000 }

    private enum Link {
        /// The attempt has a number.
        case opening(Int)
        case open(Connection)
        /// It is not tried again before this time, by the steady clock.
        case resting(until: Int64)
    }

    private var links: [EndpointID: Link] = [:]
    private var attempts = 0
    /// How often in a row a way to a target led to nothing.
    private var failures: [EndpointID: Int] = [:]

    subscript(target: EndpointID) -> Connection? { if case .open(let connection)? = links[target] { connection } else { nil } }

    var all: [(target: EndpointID, connection: Connection)] { links.compactMap { target, _ in self[target].map { (target, $0) } } }

    /// Whether a connection is open, or is being opened.
    func isBusy(_ target: EndpointID) -> Bool {
        switch links[target] {
        case .opening, .open: true
        case .resting, nil: false
        }
    }

    /// Begins an attempt.
    /// - Returns: The number of the attempt; `nil` if the way rests, or needs none.
    mutating func begin(_ target: EndpointID, now: Int64) -> Int? {
        switch links[target] {
        case .opening, .open: return nil
        case .resting(let until) where until > now: return nil
        case .resting, nil: break
        }
        attempts += 1
        links[target] = .opening(attempts)
        return attempts
    }

    /// - Returns: Whether the attempt still counts. If not, the owner closes the connection.
    mutating func opened(_ target: EndpointID, _ attempt: Int, _ connection: Connection) -> Bool {
        guard case .opening(attempt)? = links[target] else { return false }
        links[target] = .open(connection)
        return true
    }

    mutating func failed(_ target: EndpointID, _ attempt: Int, now: Int64) {
        if case .opening(attempt)? = links[target] { rest(target, now: now) }
    }

    /// - Returns: Whether this was the connection to the target.
    mutating func ended(_ target: EndpointID, _ connection: Connection, now: Int64) -> Bool {
        guard self[target] === connection else { return false }
        rest(target, now: now)
        return true
    }

    /// The target has answered.
    mutating func succeeded(_ target: EndpointID) { failures[target] = nil }

    /// Forgets a connection that this side closes.
    mutating func remove(_ target: EndpointID) { links[target] = nil }

    mutating func removeAll() { links = [:] }

    private mutating func rest(_ target: EndpointID, now: Int64) {
        let count = failures[target, default: 0]
        failures[target] = min(count + 1, 4)
        links[target] = .resting(until: now + min(Self.shortestRest << Int64(count), Self.interval))
    }

    /// How long to wait before the next look for a way to a target, in milliseconds.
    func pause(of target: EndpointID, now: Int64) -> Int64 {
        guard case .resting(let until)? = links[target], until > now else { return Self.interval }
        return min(until - now, Self.interval)
    }
}

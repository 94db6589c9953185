// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol

/// The one-time keys and the sessions of the local console. They live as long as the agent's process.
struct ConsoleAccess: Sendable {
    typealias Instant = ContinuousClock.Instant

    /// A tab of the browser.
    struct Session: Hashable, Sendable, Identifiable {
        var id: String
        var begun: Date
        var expires: Date
    }

    /// What became of a key.
    enum KeyState: Hashable, Sendable {
        case unused
        /// A page has it, and has this session.
        case used(session: String)
        /// A second page had it, so one of both was not the person's.
        case usedTwice
        case expired
    }

    /// What a page gets for a key.
    enum Exchange: Hashable, Sendable {
        case begun(Session)
        case usedTwice
        /// Unknown or expired.
        case invalid
    }

    /// What a token is good for.
    enum Credential: Hashable, Sendable {
        case session(Session)
        /// Its key was used a second time.
        case endedByKey
        case invalid
    }

    static let keyLife = Duration.seconds(60)
    static let sessionLife = Duration.seconds(12 * 3_600)
    /// More keys and sessions end the oldest.
    static let keyLimit = 16
    static let sessionLimit = 16

    private struct Key {
        var id: String
        var digest: Digest256
        var end: Instant
        var state: KeyState
    }

    private struct Entry {
        var session: Session
        var digest: Digest256
        var end: Instant
        var isEndedByKey = false
    }

    private var keys: [Key] = []
    private var entries: [Entry] = []
    /// Whether a key was used twice, and the person has not been told yet.
    private(set) var hasWarning = false

    mutating func add(key digest: Digest256, id: String, at now: Instant) {
        keys.removeAll { $0.end <= now }
        keys.append(Key(id: id, digest: digest, end: now + Self.keyLife, state: .unused))
        keys.removeFirst(max(0, keys.count - Self.keyLimit))
    }

    func state(ofKey id: String, at now: Instant) -> KeyState {
        guard let key = keys.first(where: { $0.id == id }) else { return .expired }
        return key.state == .unused && key.end <= now ? .expired : key.state
    }

    /// Exchanges a key for a session.
    /// - Parameters:
    ///   - session: The id and the digest of the token of the new session.
    ///   - date: The time that is shown for it.
    mutating func exchange(
        _ key: Digest256,
        for session: (id: String, digest: Digest256),
        at now: Instant,
        date: Date
    ) -> Exchange {
        guard let index = keys.firstIndex(where: { $0.digest == key && $0.end > now }) else { return .invalid }
        switch keys[index].state {
        case .unused:
            let begun = Session(id: session.id, begun: date, expires: date + Self.sessionLife / .seconds(1))
            entries.removeAll { $0.end <= now }
            entries.append(Entry(session: begun, digest: session.digest, end: now + Self.sessionLife))
            entries.removeFirst(max(0, entries.count - Self.sessionLimit))
            keys[index].state = .used(session: session.id)
            return .begun(begun)
        case .used(let first):
            for entry in entries.indices where entries[entry].session.id == first { entries[entry].isEndedByKey = true }
            keys[index].state = .usedTwice
            hasWarning = true
            return .usedTwice
        case .usedTwice, .expired: return .usedTwice
        }
    }

    /// The person has been told that a key was used twice.
    mutating func warned() { hasWarning = false }

    func credential(_ token: Digest256, at now: Instant) -> Credential {
        guard let entry = entries.first(where: { $0.digest == token && $0.end > now }) else { return .invalid }
        return entry.isEndedByKey ? .endedByKey : .session(entry.session)
    }

    func sessions(at now: Instant) -> [Session] { entries.filter { $0.end > now && !$0.isEndedByKey }.map(\.session) }

    /// Whether a session is not over.
    func isLive(_ session: String, at now: Instant) -> Bool { sessions(at: now).contains { $0.id == session } }

    /// Ends a session.
    /// - Returns: Whether there was one.
    mutating func end(_ session: String, at now: Instant) -> Bool {
        let found = isLive(session, at: now)
        entries.removeAll { $0.session.id == session }
        return found
    }
}

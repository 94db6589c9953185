// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol
import Synchronization

/// The latest events of the API, in their order. A reader that is slower than all others misses only what it did not read in time.
final class EventLog: Sendable {
    /// How many events are kept for readers.
    static let kept = 1_000

    struct Event: Sendable {
        enum Kind: String, Sendable {
            case command, device, ask, transfer, reset
        }

        var sequence: Int64
        var kind: Kind
        /// The device that it concerns, for tokens that see some only.
        var device: String?
        /// The command that it concerns.
        var command: String?
        /// The principal that it concerns, if tokens see their own only.
        var principal: String?
        var json: String
    }

    private struct State {
        var events: [Event] = []
        var next: Int64 = 1
    }

    /// What readers wait for.
    private struct News {
        var last: Int64 = 0
        /// How often a token was removed or a session ended: its readers have to end.
        var removals: Int64 = 0
    }

    private let state = Mutex(State())
    private let news = CurrentValue(News())

    /// The sequence of the newest event; 0 before the first.
    var last: Int64 { state.withLock { $0.next - 1 } }

    func add(_ kind: Event.Kind, device: String?, command: String?, principal: String? = nil, json: String) {
        let sequence = state.withLock { state in
            defer { state.next += 1 }
            state.events.append(Event(sequence: state.next, kind: kind, device: device, command: command, principal: principal, json: json))
            // Trimmed in batches, because removal at the front moves all others.
            if state.events.count >= 2 * Self.kept { state.events.removeFirst(state.events.count - Self.kept) }
            return state.next
        }
        news.update { $0.last = sequence }
    }

    /// How often a token was removed.
    var removals: Int64 { news.value.removals }

    /// Lets all readers look whether they may still read.
    func accessChanged() { news.update { $0.removals += 1 } }

    /// The events after one; `nil` if some of them are not kept any more.
    func events(after sequence: Int64) -> [Event]? {
        state.withLock { state in
            let first = max(1, state.next - Int64(Self.kept))
            guard sequence >= first - 1, sequence < state.next else { return nil }
            return state.events.filter { $0.sequence > sequence }
        }
    }

    /// Waits for an event after one or for the end of a token or session, for a while.
    func wait(after sequence: Int64, within patience: Duration? = nil) async {
        let removals = news.value.removals
        let isMet: @Sendable (News) -> Bool = { $0.last > sequence || $0.removals != removals }
        if let patience { _ = await news.first(within: patience, where: isMet) } else { _ = await news.first(where: isMet) }
    }
}

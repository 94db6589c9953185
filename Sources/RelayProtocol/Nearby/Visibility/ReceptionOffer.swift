// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The side that receives from strangers: a person has made the device visible for it, and is asked about each of them. Without I/O; times are
/// in milliseconds. The owner calls `tick` at the `deadline`, which each other call may change.
///
/// A stranger makes a new id as often as he likes, so the questions are limited by address, and in all.
package struct ReceptionOffer: Sendable {
    /// How long the device is visible.
    package static let duration = PairingOffer.duration
    /// The sessions that are open at once: of an address, and of all.
    package static let sessionsOfAnAddress = 2
    package static let maximumSessions = 8
    /// An address about which a person has said no so often, or nothing, is asked about no more.
    package static let refusalsOfAnAddress = 3
    /// So many refusals end it.
    package static let maximumRefusals = 12

    /// Why the device is visible no longer.
    package enum End: Hashable, Sendable {
        case timedOut
        case tooManyRefusals
        case stopped
    }

    /// `visible` → `finishing` → `over`.
    package enum State: Hashable, Sendable {
        case visible
        /// It is not visible any more, and takes no new question. What a person has accepted, or is asked about, goes on.
        case finishing(End)
        case over(End)
    }

    /// What a person has said about a stranger.
    private enum Word: Hashable {
        case none
        case asked(wasAccepted: Bool)
        case accepted

        var isWanted: Bool { self != .none }
        var isAccepted: Bool { self == .accepted || self == .asked(wasAccepted: true) }
        var isAsked: Bool { if case .asked = self { true } else { false } }
    }

    private struct Stranger: Hashable {
        var source: KnockGate.Source
        var sessions = 0
        var word = Word.none
    }

    package private(set) var state = State.visible
    private let end: Milliseconds
    private var strangers: [EndpointID: Stranger] = [:]
    private var refusals: [KnockGate.Source: Int] = [:]

    package init(at now: Milliseconds) { end = Milliseconds(clamping: now.count + Self.duration) }

    /// When `tick` is to be called; `nil` once the device is not visible any more.
    package var deadline: Milliseconds? { state == .visible ? end : nil }

    package mutating func tick(at now: Milliseconds) { if let deadline, deadline <= now { finish(.timedOut) } }

    /// The person has ended it, and all that runs.
    package mutating func stop() { if !isOver { state = .over(reason ?? .stopped) } }

    /// Whether a stranger may have one more session. It counts until `closed`.
    package mutating func opened(by id: EndpointID, from source: KnockGate.Source, at now: Milliseconds) -> Bool {
        tick(at: now)
        var stranger = strangers[id] ?? Stranger(source: source)
        guard takes(stranger), strangers.values.reduce(0, { $0 + $1.sessions }) < Self.maximumSessions,
            strangers.values.reduce(0, { $0 + ($1.source == source ? $1.sessions : 0) }) < Self.sessionsOfAnAddress
        else { return false }
        stranger.source = source
        stranger.sessions += 1
        strangers[id] = stranger
        return true
    }

    package mutating func closed(by id: EndpointID) {
        guard var stranger = strangers[id] else { return }
        stranger.sessions -= 1
        // While the device is visible, whoever was accepted may come back for the rest.
        strangers[id] = stranger.sessions > 0 || stranger.word.isWanted && state == .visible ? stranger : nil
        finishIfIdle()
    }

    /// Whether a stranger may offer something, of which a person may know already.
    package mutating func mayOffer(_ id: EndpointID, at now: Milliseconds) -> Bool {
        tick(at: now)
        return strangers[id].map(takes) ?? (state == .visible)
    }

    /// Whether a person was, or is, asked about a stranger. The sessions of others do not stay for long.
    package func isWanted(_ id: EndpointID) -> Bool { strangers[id]?.word.isWanted ?? false }

    /// Whether a person is to be asked about a stranger. `answered` follows.
    package mutating func ask(_ id: EndpointID, at now: Milliseconds) -> Bool {
        tick(at: now)
        guard state == .visible, var stranger = strangers[id], refusals[stranger.source, default: 0] < Self.refusalsOfAnAddress,
            !strangers.values.contains(where: { $0.source == stranger.source && $0.word.isAsked })
        else { return false }
        stranger.word = .asked(wasAccepted: stranger.word.isAccepted)
        strangers[id] = stranger
        return true
    }

    /// - Parameter isAccepted: Whether the person has said yes. Silence is a no.
    package mutating func answered(_ id: EndpointID, isAccepted: Bool) {
        guard var stranger = strangers[id], case .asked(let wasAccepted) = stranger.word else { return }
        stranger.word = isAccepted || wasAccepted ? .accepted : .none
        strangers[id] = stranger.sessions > 0 || stranger.word.isWanted && state == .visible ? stranger : nil
        if !isAccepted {
            refusals[stranger.source, default: 0] += 1
            if refusals.values.reduce(0, +) >= Self.maximumRefusals { finish(.tooManyRefusals) }
        }
        finishIfIdle()
    }

    private var isOver: Bool { if case .over = state { true } else { false } }

    private var reason: End? {
        switch state {
        case .visible: nil
        case .finishing(let end), .over(let end): end
        }
    }

    private func takes(_ stranger: Stranger) -> Bool {
        switch state {
        case .visible: true
        case .finishing: stranger.word.isWanted
        case .over: false
        }
    }

    private mutating func finish(_ end: End) {
        guard state == .visible else { return }
        state = .finishing(end)
        finishIfIdle()
    }

    private mutating func finishIfIdle() {
        guard case .finishing(let end) = state, !strangers.values.contains(where: { $0.word.isWanted && $0.sessions > 0 }) else { return }
        state = .over(end)
    }
}

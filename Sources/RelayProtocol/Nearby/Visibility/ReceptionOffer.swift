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
    /// An accepted transfer that brings nothing for so long keeps no session open, in milliseconds.
    package static let stall: Int64 = 60_000
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
        /// - from: The address that the question counts for.
        /// - accepted: When an earlier transfer, which was accepted, has brought something last.
        case asked(from: KnockGate.Source, accepted: Milliseconds?)
        /// - last: When a transfer has brought something last.
        case accepted(last: Milliseconds)

        var accepted: Milliseconds? {
            switch self {
            case .none: nil
            case .asked(_, let last): last
            case .accepted(let last): last
            }
        }

        var isAsked: Bool { if case .asked = self { true } else { false } }

        /// Whether a session has a reason to stay.
        func isWanted(at now: Milliseconds) -> Bool {
            switch self {
            case .none: false
            case .asked: true
            case .accepted(let last): now.count - last.count < ReceptionOffer.stall
            }
        }
    }

    private struct Stranger: Hashable {
        /// By the address that they came from.
        var sessions: [KnockGate.Source: Int] = [:]
        var word = Word.none

        var count: Int { sessions.values.reduce(0, +) }
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
        var stranger = strangers[id] ?? Stranger()
        guard takes(stranger, at: now), strangers.values.reduce(0, { $0 + $1.count }) < Self.maximumSessions,
            strangers.values.reduce(0, { $0 + $1.sessions[source, default: 0] }) < Self.sessionsOfAnAddress
        else { return false }
        stranger.sessions[source, default: 0] += 1
        strangers[id] = stranger
        return true
    }

    package mutating func closed(by id: EndpointID, from source: KnockGate.Source) {
        guard var stranger = strangers[id], let count = stranger.sessions[source] else { return }
        stranger.sessions[source] = count > 1 ? count - 1 : nil
        put(stranger, id)
        finishIfIdle()
    }

    /// Whether a stranger may offer something, of which a person may know already.
    package mutating func mayOffer(_ id: EndpointID, at now: Milliseconds) -> Bool {
        tick(at: now)
        return strangers[id].map { takes($0, at: now) } ?? (state == .visible)
    }

    /// Whether a person is asked about a stranger, or an accepted transfer goes on. Other sessions do not stay for long.
    package func isWanted(_ id: EndpointID, at now: Milliseconds) -> Bool { strangers[id]?.word.isWanted(at: now) ?? false }

    /// Whether a person is to be asked about a stranger, who came from this address. `answered` follows.
    package mutating func ask(_ id: EndpointID, from source: KnockGate.Source, at now: Milliseconds) -> Bool {
        tick(at: now)
        guard state == .visible, var stranger = strangers[id], stranger.sessions[source] != nil,
            refusals[source, default: 0] < Self.refusalsOfAnAddress, !isAsked(from: source), !stranger.word.isAsked
        else { return false }
        stranger.word = .asked(from: source, accepted: stranger.word.accepted)
        strangers[id] = stranger
        return true
    }

    /// - Parameter isAccepted: Whether the person has said yes. Silence is a no.
    package mutating func answered(_ id: EndpointID, isAccepted: Bool, at now: Milliseconds) {
        guard var stranger = strangers[id], case .asked(let source, let accepted) = stranger.word else { return }
        stranger.word = (isAccepted ? now : accepted).map { .accepted(last: $0) } ?? .none
        put(stranger, id)
        if !isAccepted {
            refusals[source, default: 0] += 1
            if refusals.values.reduce(0, +) >= Self.maximumRefusals { finish(.tooManyRefusals) }
        }
        finishIfIdle()
    }

    /// An accepted transfer has brought something.
    package mutating func progressed(_ id: EndpointID, at now: Milliseconds) {
        guard let word = strangers[id]?.word, word.accepted != nil else { return }
        strangers[id]?.word = if case .asked(let source, _) = word { .asked(from: source, accepted: now) } else { .accepted(last: now) }
    }

    /// While the device is visible, whoever was accepted may come back for the rest.
    private mutating func put(_ stranger: Stranger, _ id: EndpointID) {
        strangers[id] = stranger.count > 0 || stranger.word != .none && state == .visible ? stranger : nil
    }

    private func isAsked(from source: KnockGate.Source) -> Bool {
        strangers.values.contains { if case .asked(source, _) = $0.word { true } else { false } }
    }

    private var isOver: Bool { if case .over = state { true } else { false } }

    private var reason: End? {
        switch state {
        case .visible: nil
        case .finishing(let end), .over(let end): end
        }
    }

    private func takes(_ stranger: Stranger, at now: Milliseconds) -> Bool {
        switch state {
        case .visible: true
        case .finishing: stranger.word.isWanted(at: now)
        case .over: false
        }
    }

    private mutating func finish(_ end: End) {
        guard state == .visible else { return }
        state = .finishing(end)
        finishIfIdle()
    }

    private mutating func finishIfIdle() {
        guard case .finishing(let end) = state, !strangers.values.contains(where: { $0.word != .none && $0.count > 0 }) else { return }
        state = .over(end)
    }
}

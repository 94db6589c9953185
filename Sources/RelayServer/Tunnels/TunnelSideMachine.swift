// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Decides what one side of a tunnel does, from its admission until both directions have ended. It does no I/O: the handler passes events in,
/// and performs what is returned.
struct TunnelSideMachine: Hashable {
    private struct Pairing: Hashable {
        let generation: Int
        /// The gate knows that bytes pass, so the pairing is final.
        var isAnnounced = false
    }

    private enum Stage: Hashable {
        /// Admitted, without a partner.
        case waiting
        case paired(Pairing)
        /// Sent away by the gate. The pairing, if any, still has to be broken off.
        case dismissed(Pairing?)
        /// The socket has left the event loop.
        case left
    }

    private enum Input: Hashable {
        case open
        /// Bytes, or only the end, are not yet handed over.
        case ended
        case handedOver
    }

    private var stage = Stage.waiting
    private var input = Input.open
    private var isOutputDone = false
    /// The client knows about a pairing.
    private(set) var isGreeted = false
    private var reads = ReadGate(heldBy: .receiver)

    private var pairing: Pairing? {
        switch stage {
        case .paired(let pairing): pairing
        case .dismissed(let pairing): pairing
        case .waiting, .left: nil
        }
    }

    var hasLeft: Bool { stage == .left }
    var isDismissed: Bool { if case .dismissed = stage { true } else { false } }
    var hasInputEnded: Bool { input != .open }
    /// Whether both directions have ended properly.
    var isComplete: Bool { input == .handedOver && isOutputDone }

    // MARK: The pairing

    enum Begin: Hashable {
        case nothing
        /// The connection is of no use to the new partner: abort it if the gate says that the pairing is current.
        case breakOff
        case begin(greets: Bool)
    }

    /// The gate has paired this side, perhaps again.
    /// - Parameter isActive: Whether the connection is open.
    mutating func paired(generation: Int, isActive: Bool) -> Begin {
        switch stage {
        // The other side was informed first and has already begun.
        case .left: return .nothing
        case .dismissed: return .breakOff
        case .waiting, .paired:
            guard isActive else { return .breakOff }
            stage = .paired(Pairing(generation: generation))
            defer { isGreeted = true }
            return .begin(greets: !isGreeted)
        }
    }

    /// The client is informed: reading may begin.
    mutating func began() { reads.release(.receiver) }

    enum Dismissal: Hashable {
        /// Tell the client the reason, then close.
        case refuse
        case close
    }

    /// - Returns: `nil` if this side is dismissed already.
    mutating func dismissed() -> Dismissal? {
        if isDismissed { return nil }
        stage = .dismissed(pairing)
        return isGreeted ? .close : .refuse
    }

    /// The socket leaves the event loop with all that was read.
    mutating func leaves() { stage = .left }

    enum Break: Hashable {
        /// Nothing passes here, or both directions have ended.
        case nothing
        /// Abort the other side if the gate says that the pairing is current.
        case abortIfCurrent(generation: Int)
        case abort
    }

    /// The connection has closed, or is of no use. The other side must not mistake a break for the end.
    func broken() -> Break {
        guard let pairing, !isComplete else { return .nothing }
        return pairing.isAnnounced ? .abort : .abortIfCurrent(generation: pairing.generation)
    }

    // MARK: In

    /// The pipeline asks for a read.
    /// - Returns: Whether to read now.
    mutating func wantsRead() -> Bool { reads.passes(.read) }

    /// The other side has room, or nothing is forwarded any more.
    /// - Returns: Whether a read waited.
    mutating func resumes() -> Bool {
        reads.release(.receiver)
        return reads.takeWaiting() == .read
    }

    /// - Returns: Whether a read waited and may happen.
    mutating func takeRead() -> Bool { reads.takeWaiting() == .read }

    /// The client has sent its last byte.
    /// - Returns: Whether to close, because a client that ends its input before the pairing gives up the tunnel.
    mutating func inputEnded() -> Bool {
        if input == .open { input = .ended }
        if case .paired = stage { return false }
        return true
    }

    enum Step: Hashable {
        /// Ask the gate whether the pairing may pass bytes. `announced` follows.
        case announce(generation: Int)
        /// Hand over all that was read. `handedOver`, or `transfers`, follows.
        case handOver(isEnd: Bool)
    }

    /// - Parameter hasBytes: Whether bytes wait to be handed over.
    func nextStep(hasBytes: Bool) -> Step? {
        guard case .paired(let pairing) = stage, input != .handedOver, hasBytes || input == .ended else { return nil }
        return pairing.isAnnounced ? .handOver(isEnd: input == .ended) : .announce(generation: pairing.generation)
    }

    /// - Parameter isCurrent: The gate's answer. If it is false, a newer pairing follows.
    mutating func announced(isCurrent: Bool) {
        guard isCurrent else { return reads.hold(.receiver) }
        guard case .paired(var pairing) = stage else { return }
        pairing.isAnnounced = true
        stage = .paired(pairing)
    }

    /// Both connections leave their event loops now. The bytes that were read move, too.
    mutating func transfers() { reads.hold(.receiver) }

    /// - Parameter hasRoom: Whether the other side can take more.
    /// - Returns: Whether to close, because both directions have ended.
    mutating func handedOver(hasRoom: Bool) -> Bool {
        if hasRoom { reads.release(.receiver) } else { reads.hold(.receiver) }
        if input == .ended { input = .handedOver }
        return isComplete
    }

    // MARK: Out

    enum OutputEnd: Hashable {
        case closeOutput
        /// Both directions have ended.
        case close
    }

    /// All bytes of the other side are written, and no more follow.
    mutating func outputDone() -> OutputEnd? {
        guard !isOutputDone else { return nil }
        isOutputDone = true
        return isComplete ? .close : .closeOutput
    }
}

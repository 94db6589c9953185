// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayTesting
import Testing

@testable import RelayProtocol

/// Two machines with random apps, connected by two byte streams that arrive in pieces.
struct SessionSimulation {
    typealias Machine = SessionStateMachine

    /// What an app waits for, and what it holds.
    struct Side {
        var machine: Machine
        var decoder = SessionFrameDecoder()
        /// Bytes that were written and have not arrived at the other side.
        var output = ByteBuffer()
        var hasEnded = false

        var opening: Set<SessionConnectionID> = []
        var open: Set<SessionConnectionID> = []
        var offered: [SessionConnectionID] = []
        var awaited: [SessionRequestID: ByteBuffer] = [:]
        var unanswered: [SessionRequestID: ByteBuffer] = [:]
        var answering: Set<SessionRequestID> = []
        var unconsumed: [MessageCredit] = []
        var reservations: [SessionFrame.MessageKind: Int] = [:]
        /// Bytes of the endpoint's budgets that are reserved for this side.
        var setAside: [SessionFrame.MessageKind: Int] = [:]
    }

    /// Identifies a message in flight by its sender, to compare it on arrival.
    struct Sent: Hashable {
        let side: Int
        let request: SessionRequestID
        let kind: SessionFrame.MessageKind
    }

    private static let material: ByteBuffer = {
        var random = SeededGenerator(seed: 1)
        var buffer = ByteBuffer()
        for _ in 0..<(1 << 17) { buffer.writeInteger(random.next()) }
        // Long enough for the largest message at any offset below 4,096.
        for _ in 0..<4 {
            let whole = buffer
            buffer.writeImmutableBuffer(whole)
        }
        buffer.writeImmutableBuffer(ByteBuffer(repeating: 5, count: 4_096))
        return buffer
    }()

    let seed: UInt64
    var random: SeededGenerator
    var sides: [Side]
    var now = Duration.zero
    var messages: [Sent: ByteBuffer] = [:]
    let limits: Limits
    var hugeMessagesLeft = 2
    var results = (responses: 0, failures: 0, large: 0)

    init(seed: UInt64, limits: Limits) {
        self.seed = seed
        self.limits = limits
        random = SeededGenerator(seed: seed)
        sides = [Side(machine: Machine(role: .client, limits: limits)), Side(machine: Machine(role: .server, limits: limits))]
        for side in 0...1 { run(side) { $0.start(at: .zero, into: &$1) } }
    }

    // MARK: Helpers

    private var note: Comment { "seed \(seed)" }

    mutating func run(_ side: Int, _ body: (inout Machine, inout [SessionAction]) throws -> Void) rethrows {
        var actions: [SessionAction] = []
        try body(&sides[side].machine, &actions)
        for action in actions { perform(action, side) }
        checkBounds(side)
    }

    private func checkBounds(_ side: Int) {
        let machine = sides[side].machine
        let budget = limits[.assemblyBytesPerSession]
        for kind: SessionFrame.MessageKind in [.request, .response] {
            let bytes = machine[assembly: kind].bytes
            #expect(bytes <= budget, note)
            #expect(sides[side].setAside[kind, default: 0] + sides[side].reservations[kind, default: 0] == bytes, note)
        }
        #expect(machine.heldBytes <= 2 * budget + machine.connectionCount * SessionWire.windowBytes, note)
        #expect(machine.connectionCount <= limits[.connectionsPerSession], note)
        #expect(machine.countsAreRight, note)
    }

    private mutating func perform(_ action: SessionAction, _ side: Int) {
        switch action {
        case .send(let frame):
            #expect(!sides[side].hasEnded, note)
            SessionFrameEncoder.write(frame, to: &sides[side].output)
        case .streamLost:
            Issue.record("the stream is lost, \(note)")
        case .openReceived(let id, _):
            sides[side].offered.append(id)
        case .openSucceeded(let id):
            #expect(sides[side].opening.remove(id) != nil, note)
            sides[side].open.insert(id)
        case .openFailed(let id, _):
            #expect(sides[side].opening.remove(id) != nil, note)
        case .connectionClosed(let id, _):
            // An offered connection remains until the app answers.
            if sides[side].open.remove(id) == nil { #expect(sides[side].offered.contains(id), note) }
            forgetClosed(id, side)
        case .requestReceived(let id, let message, timeLeft: _, let receipt):
            #expect(message == messages.removeValue(forKey: Sent(side: 1 - side, request: id, kind: .request)), note)
            #expect(sides[side].unanswered.updateValue(message, forKey: id) == nil, note)
            sides[side].unconsumed.append(receipt)
        case .requestCancelled(let id):
            #expect(sides[side].unanswered.removeValue(forKey: id) != nil, note)
        case .responseFinished(let id, wasSent: _):
            #expect(sides[side].answering.remove(id) != nil, note)
        case .responseReceived(let id, let message, let receipt):
            #expect(sides[side].awaited.removeValue(forKey: id) != nil, note)
            #expect(message == messages.removeValue(forKey: Sent(side: 1 - side, request: id, kind: .response)), note)
            sides[side].unconsumed.append(receipt)
            results.responses += 1
            if message.readableBytes > SessionWire.inlineBytes { results.large += 1 }
        case .requestFailed(let id, _):
            #expect(sides[side].awaited.removeValue(forKey: id) != nil, note)
            results.failures += 1
        case .reserve(let bytes, let kind):
            #expect(sides[side].reservations.updateValue(bytes, forKey: kind) == nil, note)
        case .release(let bytes, let kind):
            sides[side].setAside[kind, default: 0] -= bytes
            #expect(sides[side].setAside[kind, default: 0] >= 0, note)
        case .ended(let end):
            switch end {
            case .failed, .failedByPeer: Issue.record("\(end), \(note)")
            case .drained, .idle, .connectionLost: break
            }
            sides[side].hasEnded = true
        }
    }

    /// The machine has ended all requests of the connection.
    private func forgetClosed(_ id: SessionConnectionID, _ side: Int) {
        #expect(!sides[side].unanswered.keys.contains { $0.connection == id }, note)
        #expect(!sides[side].awaited.keys.contains { $0.connection == id }, note)
        #expect(!sides[side].answering.contains { $0.connection == id }, note)
    }

    /// Delivers up to the given number of bytes to the other side.
    private mutating func deliver(from side: Int, upTo limit: Int) {
        let count = min(limit, sides[side].output.readableBytes)
        if count > 0 {
            // A separate buffer, as from a socket.
            guard let piece = sides[side].output.readBytes(length: count) else { return }
            sides[side].output.discardReadBytes()
            sides[1 - side].decoder.append(ByteBuffer(bytes: piece))
            do {
                while let frame = try sides[1 - side].decoder.next() {
                    let now = now
                    run(1 - side) { $0.receive(frame, at: now, into: &$1) }
                }
            } catch {
                Issue.record("\(error), \(note)")
            }
        } else if sides[side].hasEnded {
            run(1 - side) { $0.connectionLost(into: &$1) }
        }
        if sides[side].output.readableBytes == 0 {
            let count = sides[side].machine.repliesSent
            sides[side].machine.flushed(repliesUpTo: count)
        }
    }

    // MARK: Random choices

    private mutating func message() -> ByteBuffer {
        let sizes = [0, 1, 100, 128, 32_767, 32_768, 32_769, 65_536, 65_537]
        var size = sizes.randomElement(using: &random) ?? 0
        switch Int.random(in: 0..<40, using: &random) {
        case 0..<10: size = Int.random(in: 0...300_000, using: &random)
        case 10 where hugeMessagesLeft > 0:
            hugeMessagesLeft -= 1
            size = [limits[.messageBytes], limits[.messageBytes] - 1, 5_000_000].randomElement(using: &random) ?? 0
        default: break
        }
        let start = Int.random(in: 0..<4_096, using: &random)
        return Self.material.getSlice(at: start, length: min(size, limits[.messageBytes])) ?? ByteBuffer()
    }

    private mutating func pick<Element: Comparable>(_ elements: some Collection<Element>) -> Element? {
        elements.sorted().randomElement(using: &random)
    }

    private mutating func pickRequest(_ requests: some Collection<SessionRequestID>) -> SessionRequestID? {
        requests.sorted { ($0.connection, $0.number) < ($1.connection, $1.number) }.randomElement(using: &random)
    }

    private mutating func open(_ side: Int) {
        do {
            var id: SessionConnectionID?
            try run(side) { id = try $0.openConnection(SessionOpening(serviceName: "s"), into: &$1) }
            if let id { sides[side].opening.insert(id) }
        } catch let error as SessionSendError {
            switch error {
            case .sessionEnding, .limitExceeded: break
            case .metadataTooLong, .notOpen: Issue.record("\(error), \(note)")
            }
        } catch {}
    }

    private mutating func ask(_ side: Int) {
        guard let id = pick(sides[side].open) else { return }
        let message = message()
        do {
            var request: SessionRequestID?
            var actions: [SessionAction] = []
            request = try sides[side].machine.sendRequest(message, on: id, into: &actions)
            if let request {
                sides[side].awaited[request] = message
                messages[Sent(side: side, request: request, kind: .request)] = message
            }
            run(side) { $1 = actions }
        } catch {
            guard case .limitExceeded = error else {
                Issue.record("\(error), \(note)")
                return
            }
        }
    }

    private mutating func answer(_ side: Int, _ request: SessionRequestID) {
        sides[side].unanswered[request] = nil
        let message = message()
        var actions: [SessionAction] = []
        var progress = SessionResponseProgress.dropped
        if Int.random(in: 0..<10, using: &random) == 0 {
            progress = sides[side].machine.failRequest(request, SessionFailure(.failure, "by chance"), into: &actions)
        } else {
            messages[Sent(side: side, request: request, kind: .response)] = message
            do {
                progress = try sides[side].machine.respond(to: request, message, at: .zero, into: &actions)
            } catch {
                Issue.record("\(error), \(note)")
            }
        }
        #expect(progress != .dropped, note)
        if progress == .waiting { sides[side].answering.insert(request) }
        run(side) { $1 = actions }
    }

    private mutating func answerOffer(_ side: Int) {
        guard !sides[side].offered.isEmpty else { return }
        let id = sides[side].offered.removeFirst()
        let now = now
        if Int.random(in: 0..<8, using: &random) == 0 {
            run(side) { $0.refuse(id, SessionRejection(.appServiceUnavailable), at: now, into: &$1) }
        } else {
            var isOpen = false
            run(side) { isOpen = $0.accept(id, at: now, into: &$1) }
            if isOpen { sides[side].open.insert(id) }
        }
    }

    private mutating func take(_ side: Int) {
        guard !sides[side].unconsumed.isEmpty else { return }
        let receipt = sides[side].unconsumed.remove(at: Int.random(in: 0..<sides[side].unconsumed.count, using: &random))
        run(side) { $0.consumed(receipt, into: &$1) }
    }

    private mutating func reserve(_ side: Int) {
        let now = now
        for kind: SessionFrame.MessageKind in [.request, .response] {
            guard let bytes = sides[side].reservations.removeValue(forKey: kind) else { continue }
            sides[side].setAside[kind, default: 0] += bytes
            run(side) { $0.reserved(for: kind, at: now, into: &$1) }
        }
    }

    private mutating func nextData(_ side: Int) {
        let now = now
        let count = Int.random(in: 1...40_000, using: &random)
        // An owner calls `nextData` when the stream accepts more bytes.
        guard sides[side].output.readableBytes < 100_000 else { return }
        run(side) { $0.nextData(maximumBytes: count, at: now, into: &$1) }
    }

    mutating func close(_ side: Int) {
        guard let id = pick(sides[side].open.union(sides[side].opening)) else { return }
        let now = now
        run(side) { $0.closeConnection(id, at: now, into: &$1) }
        sides[side].open.remove(id)
    }

    /// One step of one side.
    mutating func step() {
        let side = Int.random(in: 0...1, using: &random)
        now += .milliseconds(Int.random(in: 0...20, using: &random))
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<3: open(side)
        case 3..<8: answerOffer(side)
        case 8..<22: ask(side)
        case 22..<34: if let request = pickRequest(sides[side].unanswered.keys) { answer(side, request) }
        case 34..<38:
            if let request = pickRequest(sides[side].awaited.keys) { run(side) { $0.cancelRequest(request, into: &$1) } }
        case 38..<46: take(side)
        case 46..<52: reserve(side)
        case 52..<66: nextData(side)
        case 66 where Int.random(in: 0..<4, using: &random) == 0: close(side)
        case 67: deliver(from: side, upTo: 1)
        default: deliver(from: side, upTo: Int.random(in: 1...70_000, using: &random))
        }
    }

    /// Runs until nothing is pending: apps take and answer everything.
    mutating func settle() {
        var isBusy = true
        while isBusy {
            isBusy = false
            for side in 0...1 {
                while !sides[side].offered.isEmpty {
                    answerOffer(side)
                    isBusy = true
                }
                while let request = pickRequest(sides[side].unanswered.keys) {
                    answer(side, request)
                    isBusy = true
                }
                while !sides[side].unconsumed.isEmpty {
                    take(side)
                    isBusy = true
                }
                if !sides[side].reservations.isEmpty {
                    reserve(side)
                    isBusy = true
                }
                if sides[side].machine.hasData, sides[side].output.readableBytes < 100_000 {
                    nextData(side)
                    isBusy = true
                }
                if sides[side].output.readableBytes > 0 {
                    deliver(from: side, upTo: 65_536)
                    isBusy = true
                }
            }
        }
    }

    /// Breaks the byte stream: bytes in flight are lost.
    mutating func breakOff() {
        for side in 0...1 {
            sides[side].output.clear()
            run(side) { $0.connectionLost(into: &$1) }
        }
    }

    /// Checks that nothing is pending.
    func checkSettled() {
        for side in sides {
            #expect(side.opening.isEmpty && side.awaited.isEmpty && side.unanswered.isEmpty && side.answering.isEmpty, note)
            #expect(side.machine.heldBytes == 0, note)
            #expect(side.setAside.values.allSatisfy { $0 == 0 }, note)
        }
    }

    func checkEnded() {
        for side in sides {
            #expect(side.hasEnded, note)
            #expect(side.machine.connectionCount == 0, note)
        }
    }
}

extension SessionStateMachine {
    /// Whether the machine's counters match its tables.
    var countsAreRight: Bool {
        var (awaited, closing, assembling, queued, unfinished, ungranted) = (0, 0, 0, 0, 0, 0)
        for connection in connections.values {
            switch connection.phase {
            case .opening: awaited += 1
            case .closing: closing += 1
            case .offered, .open, .abandoned: break
            }
            awaited += connection.outgoing.count
            unfinished += connection.incoming.count
            for case .sending(.announced) in connection.incoming.values { ungranted += 1 }
            for exchange in [connection.outgoing, connection.incoming].flatMap(\.values) {
                switch exchange {
                case .receiving(.assembling, _, _): assembling += 1
                case .sending(.queued), .rejecting: queued += 1
                default: break
                }
            }
            queued -= connection.line.count
        }
        return awaited == awaitedCount && closing == closingCount && assembling == assemblingCount && queued == 0
            && unfinished == unfinishedCount && ungranted == ungrantedAnswers
    }
}

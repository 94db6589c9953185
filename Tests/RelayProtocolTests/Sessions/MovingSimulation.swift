// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayTesting
import Testing

@testable import RelayProtocol

/// Two machines of a session that moves between streams, which break at any byte. Both apps ask and answer; each message names its sender,
/// connection and place. Side 0 is the opener.
struct MovingSimulation {
    /// A byte stream between the sides. Index 0 is the opener's end.
    struct Stream {
        /// Bytes on their way to each side.
        var arriving = [ByteBuffer(), ByteBuffer()]
        var decoders = [SessionFrameDecoder(), SessionFrameDecoder()]
        var isClosed = [false, false]
        /// Nothing more arrives, and the sides notice it at some time.
        var isBroken = false
        /// Whether the acceptor has handled the first frame.
        var isAnswered = false
    }

    private(set) var random: SeededGenerator
    let seed: UInt64
    var machines: [SessionStateMachine]
    var streams = [Stream()]
    /// The stream of each side.
    var current: [Int?] = [0, 0]
    /// The stream on which the opener waits for an answer.
    var candidate: Int?
    /// The settings of earlier moves, which late streams repeat.
    private var earlierMoves: [SessionSettings] = []
    var now = Duration.zero
    /// Breaks the stream once this many bytes have arrived.
    var breaksAfter: Int?
    private(set) var arrivedBytes = 0

    private(set) var open: [[SessionConnectionID]] = [[], []]
    private var asked: [SessionConnectionID: [UInt32]] = [:]
    private var awaited: [[SessionRequestID: ByteBuffer]] = [[:], [:]]
    private var unanswered: [[(request: SessionRequestID, message: ByteBuffer)]] = [[], []]
    private var delivered: Set<ByteBuffer> = []
    private var lastPlace: [[SessionConnectionID: UInt32]] = [[:], [:]]
    private(set) var sent = 0
    private(set) var answered = 0
    private(set) var moves = 0

    init(seed: UInt64) {
        self.seed = seed
        random = SeededGenerator(seed: seed)
        var generator = SeededGenerator(seed: seed)
        machines = [
            SessionStateMachine(role: .client, offer: .opener(SessionID(using: &generator))),
            SessionStateMachine(role: .server, offer: .acceptor),
        ]
        for side in 0...1 { run(side) { $0.start(at: .zero, into: &$1) } }
        streams[0].isAnswered = true
        // A session can move once both have the other's settings.
        for side in 0...1 { deliver(0, to: side, upTo: .max) }
    }

    private var note: Comment { "seed \(seed), after \(arrivedBytes) bytes, \(moves) moves" }

    mutating func run<Result>(_ side: Int, _ body: (inout SessionStateMachine, inout [SessionAction]) throws -> Result) rethrows -> Result {
        var actions: [SessionAction] = []
        let result = try body(&machines[side], &actions)
        perform(actions, side)
        return result
    }

    private mutating func perform(_ actions: [SessionAction], _ side: Int) {
        for action in actions { perform(action, side) }
    }

    private mutating func perform(_ action: SessionAction, _ side: Int) {
        switch action {
        case .send(let frame):
            guard let stream = current[side] else {
                Issue.record("a frame without a stream, \(note)")
                return
            }
            write(frame, to: stream, from: side)
        case .streamLost:
            if let stream = current[side] { close(stream, side) }
            current[side] = nil
        case .openReceived(let id, _):
            let now = now
            run(side) { _ = $0.accept(id, at: now, into: &$1) }
            open[side].append(id)
        case .openSucceeded(let id): open[side].append(id)
        case .requestReceived(let id, let message, timeLeft: _, let receipt):
            #expect(delivered.insert(message).inserted, "a request arrives twice, \(note)")
            let place = message.getInteger(at: message.readerIndex + 5, as: UInt32.self) ?? 0
            if message.readableBytes <= SessionWire.inlineBytes {
                #expect(place > lastPlace[side][id.connection] ?? 0, "a request overtakes another, \(note)")
                lastPlace[side][id.connection] = place
            }
            unanswered[side].append((id, message))
            run(side) { $0.consumed(receipt, into: &$1) }
        case .responseReceived(let id, let message, let receipt):
            #expect(awaited[side].removeValue(forKey: id) == message, note)
            answered += 1
            run(side) { $0.consumed(receipt, into: &$1) }
        case .reserve(_, let kind):
            let now = now
            run(side) { $0.reserved(for: kind, at: now, into: &$1) }
        case .responseFinished(_, let wasSent): #expect(wasSent, note)
        case .release: break
        case .openFailed, .connectionClosed, .requestCancelled, .requestFailed, .ended:
            Issue.record("\(action), \(note)")
        }
    }

    private mutating func write(_ frame: SessionFrame, to stream: Int, from side: Int) {
        guard !streams[stream].isBroken, !streams[stream].isClosed[1 - side] else { return }
        SessionFrameEncoder.write(frame, to: &streams[stream].arriving[1 - side])
        let count = machines[side].repliesWritten
        machines[side].flushed(repliesUpTo: count)
    }

    private mutating func close(_ stream: Int, _ side: Int) { streams[stream].isClosed[side] = true }

    // MARK: Streams

    /// Bytes arrive at one end of a stream.
    mutating func deliver(_ stream: Int, to side: Int, upTo limit: Int) {
        guard !streams[stream].isClosed[side] else { return }
        let isWaiting = current[side] == stream && !machines[side].reads
        var count = isWaiting ? 0 : min(limit, streams[stream].arriving[side].readableBytes)
        if let breaksAfter { count = min(count, breaksAfter - arrivedBytes) }
        if let bytes = streams[stream].arriving[side].readBytes(length: count), count > 0 {
            arrivedBytes += count
            streams[stream].decoders[side].append(ByteBuffer(bytes: bytes))
            read(stream, side)
        } else if streams[stream].arriving[side].readableBytes == 0, streams[stream].isClosed[1 - side] {
            ended(stream, side)
        }
        if let breaksAfter, arrivedBytes >= breaksAfter {
            self.breaksAfter = nil
            breakOff(stream)
        }
    }

    private mutating func read(_ stream: Int, _ side: Int) {
        let now = now
        if side == 0, candidate == stream { readAnswer(stream) }
        if side == 1, !streams[stream].isAnswered { readMove(stream) }
        guard current[side] == stream else { return }
        var decoder = streams[stream].decoders[side]
        run(side) { _ = $0.receive(from: &decoder, at: now, into: &$1) }
        streams[stream].decoders[side] = decoder
    }

    private func nextFrame(_ decoder: inout SessionFrameDecoder) -> SessionFrame? {
        do { return try decoder.next() } catch {
            Issue.record("\(error), \(note)")
            return nil
        }
    }

    private mutating func readAnswer(_ stream: Int) {
        guard let frame = nextFrame(&streams[stream].decoders[0]) else { return }
        candidate = nil
        var actions: [SessionAction] = []
        let isMoved = machines[0].takeAnswer(frame, at: now, into: &actions)
        if isMoved {
            switchTo(stream, 0)
            moves += 1
        } else {
            close(stream, 0)
        }
        perform(actions, 0)
    }

    private mutating func readMove(_ stream: Int) {
        guard let frame = nextFrame(&streams[stream].decoders[1]) else { return }
        streams[stream].isAnswered = true
        guard case .settings(let settings) = frame.payload else {
            Issue.record("no settings, \(note)")
            return
        }
        var actions: [SessionAction] = []
        do throws(SessionError) {
            try machines[1].move(settings, at: now, into: &actions)
            switchTo(stream, 1)
        } catch {
            // The stream is a late one, and the opener has acknowledged more.
            #expect(candidate != stream && [.invalidMove, .invalidCount].contains(error), note)
            write(SessionFrame(.goaway(SessionGoAway(error))), to: stream, from: 1)
            close(stream, 1)
        }
        perform(actions, 1)
    }

    private mutating func switchTo(_ stream: Int, _ side: Int) {
        if let older = current[side] { close(older, side) }
        current[side] = stream
    }

    private mutating func ended(_ stream: Int, _ side: Int) {
        close(stream, side)
        let now = now
        if side == 0, candidate == stream {
            giveUp()
        } else if current[side] == stream {
            run(side) { $0.streamEnded(at: now, into: &$1) }
        }
    }

    /// The bytes on their way are lost, and the ends are closed at some time.
    mutating func breakOff(_ stream: Int) {
        streams[stream].isBroken = true
        streams[stream].arriving = [ByteBuffer(), ByteBuffer()]
    }

    mutating func notice(_ stream: Int, _ side: Int) {
        if streams[stream].isBroken, !streams[stream].isClosed[side] { ended(stream, side) }
    }

    /// The opener asks for a move, over a new stream.
    mutating func move() {
        guard candidate == nil, let settings = machines[0].beginMove() else { return }
        earlierMoves.append(settings)
        candidate = addStream(settings)
    }

    private mutating func addStream(_ settings: SessionSettings) -> Int {
        streams.append(Stream())
        write(SessionFrame(.settings(settings)), to: streams.count - 1, from: 0)
        return streams.count - 1
    }

    /// The opener no longer waits for the answer. Its settings may arrive later.
    mutating func giveUp() {
        guard let stream = candidate else { return }
        candidate = nil
        close(stream, 0)
        machines[0].moveFailed()
        // What the older stream has brought meanwhile.
        if let current = current[0] { read(current, 0) }
    }

    /// A stream repeats the settings of an earlier move.
    mutating func repeatMove() {
        guard let settings = earlierMoves.dropLast(candidate == nil ? 0 : 1).randomElement(using: &random) else { return }
        let stream = addStream(settings)
        close(stream, 0)
    }

    // MARK: The apps

    mutating func openConnection(_ side: Int) {
        run(side) { _ = try? $0.openConnection(SessionOpening(serviceName: "s"), into: &$1) }
    }

    mutating func ask(_ side: Int, bytes: Int) {
        guard let id = open[side].randomElement(using: &random) else { return }
        let place = UInt32(1 + (asked[id]?[side] ?? 0))
        asked[id, default: [0, 0]][side] = place
        var message = ByteBuffer(integer: UInt8(side))
        message.writeMultipleIntegers(id.rawValue, place)
        message.writeRepeatingByte(UInt8(truncatingIfNeeded: place), count: bytes)
        do {
            let request = try run(side) { try $0.sendRequest(message, on: id, into: &$1) }
            awaited[side][request] = message
            sent += 1
        } catch {
            Issue.record("\(error), \(note)")
        }
    }

    mutating func answer(_ side: Int) {
        guard !unanswered[side].isEmpty else { return }
        let (request, message) = unanswered[side].removeFirst()
        let now = now
        let progress = run(side) { try? $0.respond(to: request, message, at: now, into: &$1) }
        #expect(progress != nil && progress != .dropped, note)
    }

    mutating func sendData(_ side: Int) {
        let now = now
        run(side) { _ = $0.nextData(at: now, into: &$1) }
    }

    mutating func passTime(_ time: Duration) {
        now += time
        let now = now
        for side in 0...1 where machines[side].nextDeadline.map({ $0 <= now }) == true {
            run(side) { $0.handleDeadlines(at: now, into: &$1) }
        }
    }

    // MARK: Random steps

    mutating func step() {
        passTime(.milliseconds(Int.random(in: 0...10, using: &random)))
        let side = Int.random(in: 0...1, using: &random)
        let stream = Int.random(in: max(0, streams.count - 4)..<streams.count, using: &random)
        switch Int.random(in: 0..<100, using: &random) {
        case 0: openConnection(side)
        case 1..<18: ask(side, bytes: Int.random(in: 0...9, using: &random) == 0 ? 100_000 : Int.random(in: 0...2_000, using: &random))
        case 18..<32: answer(side)
        case 32..<40: sendData(side)
        case 40..<42: breakOff(stream)
        case 42..<48: notice(stream, side)
        case 48..<52: move()
        case 52: giveUp()
        case 53: repeatMove()
        default: deliver(stream, to: side, upTo: Int.random(in: 1...20_000, using: &random))
        }
    }

    /// Everything that can happen without another break happens once.
    mutating func round() {
        passTime(.milliseconds(1))
        for stream in streams.indices where streams[stream].isClosed.contains(false) {
            for side in 0...1 {
                notice(stream, side)
                deliver(stream, to: side, upTo: 65_536)
            }
        }
        if current[0] == nil { move() }
        for side in 0...1 {
            answer(side)
            sendData(side)
        }
    }

    /// Runs until nothing is pending.
    mutating func settle() {
        for _ in 0..<20_000 where sent > answered || candidate != nil || current.contains(nil) { round() }
        #expect(sent == answered, "\(sent - answered) answers are missing, \(note)")
        #expect(awaited.allSatisfy(\.isEmpty) && unanswered.allSatisfy(\.isEmpty), note)
        #expect(delivered.count == sent, note)
        #expect(machines.allSatisfy { $0.end == nil && $0.heldBytes == 0 && $0.countsAreRight }, note)
    }
}

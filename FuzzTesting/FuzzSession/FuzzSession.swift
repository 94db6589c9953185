// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// Handles arbitrary bytes of a peer after the handshake, in arbitrary pieces: there must be no trap, and memory must stay within windows
/// and budgets. The first byte selects the local role, the piece sizes, and whether the second half of the bytes comes on another stream.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 1 else { return 0 }
    var input = ByteBuffer(bytes: UnsafeBufferPointer(start: start + 1, count: count - 1))
    var app = App(role: start[0] & 1 == 0 ? .server : .client, isSlow: start[0] & 2 != 0, framesAtOnce: start[0] & 8 == 0 ? 1 : 64)
    var decoder = SessionFrameDecoder()
    let half = start[0] & 16 == 0 ? 0 : input.readableBytes / 2
    let piece = start[0] & 4 == 0 ? input.readableBytes - half : 1 + Int(start[0] >> 3)
    while let bytes = input.readSlice(length: min(piece, input.readableBytes)), bytes.readableBytes > 0 {
        if input.readableBytes < half, !app.hasMoved {
            decoder = SessionFrameDecoder()
            decoder.append(bytes)
            app.move(to: &decoder)
        } else {
            decoder.append(bytes)
        }
        app.receive(from: &decoder)
    }
    app.finish()
    return 0
}

/// A minimal owner of the state machine: opens and sends at once, accepts, echoes, and consumes (perhaps slowly).
private struct App {
    private var machine: SessionStateMachine
    private let isSlow: Bool
    private let framesAtOnce: Int
    private var now = Duration.zero
    private var receipts: [MessageCredit] = []
    private var open: Set<SessionConnectionID> = []
    private var openOurs = 0
    private var awaited: Set<SessionRequestID> = []
    private(set) var hasMoved = false

    init(role: SessionStateMachine.Role, isSlow: Bool, framesAtOnce: Int) {
        var limits = Limits()
        limits[.assemblyBytesPerSession] = 1 << 20
        limits[.connectionsPerSession] = 8
        limits[.requestsPerConnection] = 16
        let id = SessionID(bytes: Array(0..<16))
        self.machine = SessionStateMachine(role: role, limits: limits, offer: role == .server ? .acceptor : id.map { .opener($0) } ?? .none)
        self.isSlow = isSlow
        self.framesAtOnce = framesAtOnce
        run { machine, actions in machine.start(at: .zero, into: &actions) }
        run { machine, actions in
            _ = try? machine.openConnection(SessionOpening(serviceName: "echo"), into: &actions)
        }
        openOurs = 1
    }

    mutating func receive(from decoder: inout SessionFrameDecoder) {
        var count = 0
        repeat {
            now += .milliseconds(7)
            run { [now, framesAtOnce] machine, actions in
                count = machine.receive(from: &decoder, maximumFrames: framesAtOnce, at: now, into: &actions)
            }
            if !isSlow { consumeAll() }
            guard machine.heldBytes <= 8 * 256 * 1024 + 2 << 20 else { fatalError("holds \(machine.heldBytes) bytes") }
            guard machine.connectionCount <= 8 else { fatalError("holds \(machine.connectionCount) connections") }
        } while count > 0
    }

    /// The stream has ended, and these bytes begin another one.
    mutating func move(to decoder: inout SessionFrameDecoder) {
        hasMoved = true
        run { [now] machine, actions in machine.streamEnded(at: now, into: &actions) }
        let settings = machine.beginMove()
        guard let frame = try? decoder.next() else { return machine.moveFailed() }
        run { [now] machine, actions in
            if case .settings(let settings) = frame.payload {
                try? machine.move(settings, at: now, into: &actions)
            } else if settings != nil {
                _ = machine.takeAnswer(frame, at: now, into: &actions)
            }
        }
        machine.moveFailed()
    }

    mutating func finish() {
        consumeAll()
        run { machine, actions in machine.connectionLost(into: &actions) }
        consumeAll()
        guard machine.heldBytes == 0, awaited.isEmpty, openOurs == 0, open.isEmpty else { fatalError("something got no last word") }
    }

    private mutating func consumeAll() {
        let taken = receipts
        receipts = []
        for receipt in taken { run { machine, actions in machine.consumed(receipt, into: &actions) } }
    }

    private mutating func run(_ input: (inout SessionStateMachine, inout [SessionAction]) -> Void) {
        var actions: [SessionAction] = []
        input(&machine, &actions)
        while !actions.isEmpty {
            let batch = actions
            actions = []
            for action in batch { perform(action, &actions) }
            while machine.nextData(at: now, into: &actions) {}
        }
    }

    private mutating func perform(_ action: SessionAction, _ actions: inout [SessionAction]) {
        switch action {
        case .send:
            machine.flushed(repliesUpTo: machine.repliesWritten)
        case .openReceived(let id, _):
            if id.rawValue % 5 == 0 {
                machine.refuse(id, SessionRejection(.appUnavailable), at: now, into: &actions)
            } else if machine.accept(id, at: now, into: &actions) {
                open.insert(id)
            }
        case .openSucceeded(let id):
            openOurs -= 1
            open.insert(id)
            let small = ByteBuffer(repeating: 1, count: 100)
            let large = ByteBuffer(repeating: 2, count: 100_000)
            for message in [small, large] {
                if let request = try? machine.sendRequest(message, on: id, into: &actions) { awaited.insert(request) }
            }
        case .openFailed: openOurs -= 1
        case .connectionClosed(let id, _): open.remove(id)
        case .requestReceived(let request, let message, _, let receipt):
            receipts.append(receipt)
            if request.number % 3 == 0 {
                machine.failRequest(request, SessionFailure(.messageTooLarge, "no"), into: &actions)
            } else if request.number % 7 != 0 {
                _ = try? machine.respond(to: request, message, at: now, into: &actions)
            }
        case .responseReceived(let request, _, let receipt):
            receipts.append(receipt)
            guard awaited.remove(request) != nil else { fatalError("a second last word") }
        case .requestFailed(let request, _):
            guard awaited.remove(request) != nil else { fatalError("a second last word") }
        case .reserve(_, let kind): machine.reserved(for: kind, at: now, into: &actions)
        case .streamLost, .requestCancelled, .responseFinished, .release, .ended: break
        }
    }
}

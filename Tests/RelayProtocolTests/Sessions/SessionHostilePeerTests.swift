// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayTesting
import Testing

@testable import RelayProtocol

/// A peer that sends random frames after its settings.
@Suite struct SessionHostilePeerTests {
    private struct Peer {
        typealias Frame = (payload: SessionFrame.Payload, connection: UInt32, number: UInt32)

        var random: SeededGenerator
        /// One in this number of frames deliberately violates the rules.
        let validShare: Int
        var nextConnection: UInt32 = 1
        var open: [UInt32] = []
        var lastNumber: [UInt32: UInt32] = [:]
        /// Granted bodies with their remaining bytes.
        var granted: [(request: SessionRequestID, kind: SessionFrame.MessageKind, left: Int)] = []
        var announced: [SessionRequestID: Int] = [:]
        var toAnswer: [SessionRequestID] = []
        var toGrant: [(request: SessionRequestID, kind: SessionFrame.MessageKind)] = []

        init(seed: UInt64) {
            random = SeededGenerator(seed: seed)
            validShare = [3, 20, 100, 1_000_000][Int(seed % 4)]
        }

        mutating func below(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }

        /// Updates the peer's knowledge from the frames that it receives.
        mutating func observe(_ actions: [SessionAction]) {
            for case .send(let frame) in actions {
                let request = SessionRequestID(connection: frame.connection, number: frame.number)
                switch frame.payload {
                case .opened: open.append(frame.connection.rawValue)
                case .close: open.removeAll { $0 == frame.connection.rawValue }
                case .grant(let kind): granted.append((request, kind, announced[request] ?? 40_000))
                case .request(.inline, timeLeft: _): toAnswer.append(request)
                case .request(.announced, timeLeft: _): toGrant.append((request, .request))
                case .response(.announced): toGrant.append((request, .response))
                case .data(_, of: .request, isLast: true): toAnswer.append(request)
                default: break
                }
            }
        }

        mutating func frame() -> Frame { below(validShare) == 0 ? arbitrary() : valid() }

        /// A frame that fits the state, mostly.
        private mutating func valid() -> Frame {
            guard let connection = open.randomElement(using: &random), below(25) > 0 else {
                nextConnection += 2
                return (.open(SessionOpening(serviceName: "s")), nextConnection - 2, 0)
            }
            let last = lastNumber[connection] ?? 0
            switch below(30) {
            case 0..<9:
                lastNumber[connection] = last + 1
                let request = SessionRequestID(connection: SessionConnectionID(connection), number: last + 1)
                guard below(3) == 0 else {
                    return (.request(.inline(sessionBytes([0, 1, 200][below(3)])), timeLeft: nil), connection, last + 1)
                }
                let length = [32_769, 60_000, 1 << 20, 16 << 20, 16 << 20 + 1, 1 << 40][below(6)]
                announced[request] = length
                return (.request(.announced(length), timeLeft: nil), connection, last + 1)
            case 9..<21 where !granted.isEmpty:
                let index = below(granted.count)
                let (request, kind, left) = granted[index]
                let size = min(left, 32_768)
                granted[index].left -= size
                if size == left { granted.remove(at: index) }
                return (.data(sessionBytes(size), of: kind, isLast: size == left), request.connection.rawValue, request.number)
            case 21..<23 where !toAnswer.isEmpty:
                let request = toAnswer.remove(at: below(toAnswer.count))
                announced[request] = 40_000
                let answers: [SessionFrame.Payload] = [
                    .response(.inline(sessionBytes(100))), .response(.announced(40_000)), .error(SessionFailure(.failure)),
                ]
                return (answers[below(3)], request.connection.rawValue, request.number)
            case 23..<25 where !toGrant.isEmpty:
                let (request, kind) = toGrant.remove(at: below(toGrant.count))
                return (.grant(kind), request.connection.rawValue, request.number)
            case 25 where last > 0:
                return (.cancel, connection, 1 + UInt32(below(Int(last))))
            case 26 where below(6) == 0:
                open.removeAll { $0 == connection }
                return (.close(SessionClosure(.completed)), connection, 0)
            case 27:
                return (.ping(1), 0, 0)
            default:
                return (.pong(1), 0, 0)
            }
        }

        /// Any frame that decodes.
        private mutating func arbitrary() -> Frame {
            let connection = open.randomElement(using: &random) ?? UInt32(1 + below(9))
            var number = 1 + UInt32(below(Int(lastNumber[connection] ?? 0) + 3))
            if below(10) == 0 { number = UInt32.random(in: 1...UInt32.max, using: &random) }
            let kind: SessionFrame.MessageKind = below(2) == 0 ? .request : .response
            let message: SessionFrame.Message = below(2) == 0 ? .announced(32_769 + below(1 << 25)) : .inline(sessionBytes(below(32_768)))
            switch below(15) {
            case 0: return (.open(SessionOpening(serviceName: "s")), UInt32(1 + below(Int(nextConnection) + 4)), 0)
            case 1: return (.request(message, timeLeft: nil), connection, number)
            case 2: return (.response(message), connection, number)
            case 3: return (.error(SessionFailure(.failure, String(repeating: "x", count: below(1_024)))), connection, number)
            case 4, 5:
                // Data of a granted body with a wrong length.
                guard let (request, kind, _) = granted.first, below(2) == 0 else { fallthrough }
                return (.data(sessionBytes(1 + below(32_768)), of: kind, isLast: true), request.connection.rawValue, request.number)
            case 6: return (.data(sessionBytes(1 + below(32_768)), of: kind, isLast: below(4) == 0), connection, number)
            case 7: return (.grant(kind), connection, number)
            case 8: return (.cancel, connection, number)
            case 9: return (.window(UInt32(1 + below(400_000))), connection, 0)
            case 10: return (.close(SessionClosure(.completed)), UInt32(1 + below(Int(nextConnection) + 4)), 0)
            case 11: return (.opened, connection, 0)
            case 12: return (.refused(SessionRejection(.unknown)), UInt32(1 + below(9)), 0)
            case 13: return (.goaway(SessionGoAway(lastConnection: .init(connection), code: UInt16(below(2)))), 0, 0)
            default: return (.settings(SessionSettings()), 0, 0)
            }
        }
    }

    @Test(arguments: 0..<200 as Range<UInt64>) func hostileFramesNeitherTrapNorGrowMemory(seed: UInt64) {
        var limits = Limits()
        limits[.connectionsPerSession] = 6
        limits[.requestsPerConnection] = 50
        var side = SessionSide(limits: limits)
        var peer = Peer(seed: seed)
        var setAside: [SessionFrame.MessageKind: Int] = [:]
        var reservations: [SessionFrame.MessageKind: Int] = [:]
        var accepted: [SessionConnectionID] = []
        let budget = limits[.assemblyBytesPerSession]
        // An independent count of the inline messages that the app holds, by connection.
        var unconsumed: [SessionConnectionID: Int] = [:]

        func perform(_ actions: [SessionAction]) {
            peer.observe(actions)
            for action in actions {
                switch action {
                case .reserve(let bytes, let kind): reservations[kind, default: 0] += bytes
                case .release(let bytes, let kind): setAside[kind, default: 0] -= bytes
                case .requestReceived(let id, let message, timeLeft: _, let receipt), .responseReceived(let id, let message, let receipt):
                    if receipt.assemblyBytes == 0 { unconsumed[id.connection, default: 0] += message.readableBytes }
                case .connectionClosed(let id, _): unconsumed[id] = nil
                default: break
                }
            }
        }

        for step in 0..<400 {
            side.now = .milliseconds(step)
            let (payload, connection, number) = peer.frame()
            let actions = side.receive(payload, connection, number)
            perform(actions)
            for case .openReceived(let id, _) in actions where peer.below(8) > 0 {
                perform(side.run { $0.accept(id, at: .zero, into: &$1) })
                accepted.append(id)
                // Own requests, which the peer's random answers may hit.
                for _ in 0..<3 {
                    if let (_, actions) = try? side.request(sessionBytes(peer.below(2) == 0 ? 10 : 40_000), on: id.rawValue) {
                        perform(actions)
                    }
                }
            }
            for case .requestReceived(let id, let message, timeLeft: _, let receipt) in actions where peer.below(2) == 0 {
                if peer.below(2) == 0 {
                    if receipt.assemblyBytes == 0 { unconsumed[id.connection]? -= message.readableBytes }
                    perform(side.run { $0.consumed(receipt, into: &$1) })
                }
                perform(side.run { _ = try? $0.respond(to: id, sessionBytes([0, 32_768, 33_000][peer.below(3)]), at: .zero, into: &$1) })
            }
            for kind: SessionFrame.MessageKind in [.request, .response] where reservations[kind] != nil && peer.below(2) == 0 {
                setAside[kind, default: 0] += reservations.removeValue(forKey: kind) ?? 0
                perform(side.run { $0.reserved(for: kind, at: .zero, into: &$1) })
            }
            if peer.below(3) == 0 { perform(side.run { $0.nextData(at: .zero, into: &$1) }) }
            if peer.below(40) == 0, let id = accepted.randomElement(using: &peer.random) {
                perform(side.run { $0.closeConnection(id, at: .zero, into: &$1) })
                unconsumed[id] = nil
            }

            let machine = side.machine
            #expect(machine.heldBytes <= 2 * budget + machine.connectionCount * SessionWire.windowBytes, "seed \(seed) step \(step)")
            #expect(unconsumed.values.allSatisfy { $0 <= SessionWire.windowBytes }, "seed \(seed) step \(step)")
            for kind: SessionFrame.MessageKind in [.request, .response] {
                let bytes = machine[assembly: kind].bytes
                #expect(bytes <= budget, "seed \(seed) step \(step)")
                #expect(bytes == setAside[kind, default: 0] + reservations[kind, default: 0], "seed \(seed) step \(step)")
            }
            #expect(machine.countsAreRight, "seed \(seed) step \(step)")
            #expect(machine.connectionCount <= 6, "seed \(seed) step \(step)")
            #expect(
                machine.requestAssembly.announcements.count + machine.responseAssembly.announcements.count <= 6 * 100,
                "seed \(seed) step \(step)"
            )
            if machine.end != nil {
                #expect(machine.connectionCount == 0, "seed \(seed) step \(step)")
                break
            }
        }
    }

    @Test func theGeneratorReachesDeepStates() {
        var rules: Set<SessionError> = []
        var largeMessages = 0
        var deepest = 0
        for seed: UInt64 in 0..<120 {
            var side = SessionSide()
            var peer = Peer(seed: seed)
            for step in 0..<400 where side.machine.end == nil {
                deepest = max(deepest, step)
                let (payload, connection, number) = peer.frame()
                let actions = side.receive(payload, connection, number)
                peer.observe(actions)
                for case .openReceived(let id, _) in actions {
                    peer.observe(side.run { $0.accept(id, at: .zero, into: &$1) })
                    if let (_, actions) = try? side.request(sessionBytes(40_000), on: id.rawValue) { peer.observe(actions) }
                }
                for receipt in actions.receipts {
                    if receipt.assemblyBytes > 0 { largeMessages += 1 }
                    peer.observe(side.run { $0.consumed(receipt, into: &$1) })
                }
                for kind: SessionFrame.MessageKind in [.request, .response] {
                    peer.observe(side.run { $0.reserved(for: kind, at: .zero, into: &$1) })
                }
                peer.observe(side.run { $0.nextData(at: .zero, into: &$1) })
            }
            if case .failed(let error) = side.machine.end { rules.insert(error) }
        }
        #expect(deepest > 300)
        #expect(largeMessages > 100)
        #expect(
            rules.isSuperset(of: [
                .invalidConnection, .invalidRequest, .unexpectedFrame, .windowOverflow, .bodyLengthMismatch, .settingsExpected,
            ])
        )
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct PairingOfferTests {
    /// A visible screen with a person before it, who has the phone in the hand.
    private struct Room {
        var world: PairingWorld
        var offer: PairingOffer
        var now: Int64 = 0
        var actions: [PairingOffer.Action] = []
        private var connection: UInt64 = 0

        init(seed: UInt64 = 1) {
            world = PairingWorld(seed: seed)
            offer = world.offer()
        }

        var failures: Int {
            actions.count { if case .show = $0 { true } else { $0 == .ended(.tooManyFailures) } }
        }

        mutating func connect(_ id: EndpointID? = nil) -> PairingOffer.Caller {
            connection += 1
            return .init(id ?? world.phone, connection: connection)
        }

        mutating func ask(_ request: PairingRequest, _ caller: PairingOffer.Caller) -> PairingAnswer {
            let reply = offer.receive(request, from: caller, at: Milliseconds(clamping: now), using: &world.random)
            actions += reply.actions
            return reply.answer
        }

        mutating func tick(at now: Int64) {
            self.now = now
            actions += offer.tick(at: Milliseconds(clamping: now), using: &world.random)
        }

        mutating func close(_ caller: PairingOffer.Caller) { actions += offer.closed(caller, using: &world.random) }

        /// Types the code that is shown, or another one.
        mutating func type(_ code: PairingCode? = nil, _ caller: PairingOffer.Caller? = nil) throws -> PairingError? {
            let caller = caller ?? connect()
            let typed = try code ?? #require(offer.code)
            let start = Milliseconds(clamping: now)
            var machine = try CodePairing.Caller(code: typed, own: caller.id, peer: world.screen, at: start, using: &world.random)
            var request = machine.opening
            while true {
                let answer = ask(request, caller)
                switch machine.receive(answer, at: Milliseconds(clamping: now), using: &world.random) {
                case .call(let next): request = next
                case .paired: return nil
                case .failed(let error): return error
                }
            }
        }

        mutating func typeWrongly() throws -> PairingError? { try type(world.wrongCode(for: try #require(offer.code))) }

        /// Scans the link.
        mutating func scan(_ link: PairingLink, _ caller: PairingOffer.Caller? = nil) throws(PairingError) {
            let caller = caller ?? connect()
            let machine = try SecretPairing.Caller(link: link, own: caller.id, peer: world.screen)
            try machine.finish(ask(machine.opening, caller))
        }

        func link() throws -> PairingLink {
            let place = try #require(IPAddress(bytes: [10, 0, 0, 1]).flatMap { PairingLink.Place($0, port: 4_711) })
            return try offer.link(to: [place])
        }
    }

    @Test func shownCodePairsOneDevice() throws {
        var room = Room()
        let code = try #require(room.offer.code)
        #expect(try room.type(code) == nil)
        #expect(room.actions == [.paired(room.world.phone)])
        #expect(room.offer.code == nil && room.offer.deadline == nil)
        #expect(try room.type(code) == .notPairing)
        let link = try room.link()
        #expect(throws: PairingError.notPairing) { try room.scan(link) }
        room.tick(at: PairingOffer.duration)
        #expect(room.actions.count == 1)
    }

    @Test func shownLinkServesOneUse() throws {
        var room = Room()
        let (link, code) = (try room.link(), try #require(room.offer.code))
        try room.scan(PairingLink(parsing: link.text))
        #expect(room.actions == [.paired(room.world.phone)])
        let stranger = room.connect(room.world.stranger)
        #expect(throws: PairingError.notPairing) { try room.scan(link, stranger) }
        #expect(try room.type(code) == .notPairing)
    }

    @Test(arguments: 0..<2, 0..<10 as Range<UInt64>) func honestAttemptSucceedsAfterUpToTwoFailures(failures: Int, seed: UInt64) throws {
        var room = Room(seed: seed)
        let link = try room.link()
        for _ in 0...failures {
            let before = try #require(room.offer.code)
            switch Int.random(in: 0..<3, using: &room.world.random) {
            case 0: #expect(try room.typeWrongly() == .wrong)
            case 1: #expect(room.ask(PairingRequest(.prove, room.world.random.bytes(32)), room.connect()).state == .wrong)
            default:
                let caller = room.connect(room.world.stranger)
                #expect(room.ask(PairingRequest(.commit, room.world.random.bytes(32)), caller).state == .accepted)
                room.close(caller)
            }
            // The code that is shown next is another one.
            #expect(room.actions.last == room.offer.code.map(PairingOffer.Action.show) && room.offer.code != before)
        }
        #expect(room.failures == failures + 1)
        if seed.isMultiple(of: 2) {
            #expect(try room.type() == nil)
        } else {
            try room.scan(link)
        }
        #expect(room.actions.last == .paired(room.world.phone))
    }

    @Test func threeFailuresEndIt() throws {
        var room = Room()
        let link = try room.link()
        for _ in 0..<3 { #expect(try room.typeWrongly() == .wrong) }
        #expect(room.actions.last == .ended(.tooManyFailures) && room.failures == 3)
        #expect(room.offer.code == nil && room.offer.deadline == nil)
        #expect(room.ask(PairingRequest(.commit, room.world.random.bytes(32)), room.connect()) == PairingAnswer(.notPairing))
        #expect(throws: PairingError.notPairing) { try room.scan(link) }
        #expect(room.failures == 3)
    }

    @Test func codeServesOneAttempt() throws {
        var room = Room()
        let first = try #require(room.offer.code)
        #expect(try room.typeWrongly() == .wrong)
        #expect(try room.type(first) == .wrong)
        #expect(try room.type() == nil)
    }

    @Test func oneAttemptIsMadeAtATime() throws {
        var room = Room()
        let (link, code) = (try room.link(), try #require(room.offer.code))
        let first = room.connect(room.world.stranger)
        #expect(room.ask(PairingRequest(.commit, room.world.random.bytes(32)), first).state == .accepted)
        // Neither another device, nor the same one on another connection, nor the holder of the link.
        #expect(try room.type(code) == .busy)
        #expect(try room.type(code, room.connect(room.world.stranger)) == .busy)
        #expect(throws: PairingError.busy) { try room.scan(link) }
        for step in [PairingRequest.Step.commit, .reveal, .prove] {
            #expect(room.ask(PairingRequest(step, []), room.connect()) == PairingAnswer(.busy))
        }
        // A connection that is not the attempt's may end.
        room.close(room.connect(room.world.stranger))
        #expect(room.actions.isEmpty && room.offer.code == code)
        room.close(first)
        #expect(room.failures == 1)
        #expect(try room.type() == nil)
    }

    @Test func attemptEndsAfterItsTime() throws {
        var room = Room()
        room.now = 5_000
        let (code, caller) = (room.offer.code, room.connect())
        #expect(room.ask(PairingRequest(.commit, room.world.random.bytes(32)), caller).state == .accepted)
        let deadline = Milliseconds(clamping: room.now + CodePairing.patience)
        #expect(room.offer.deadline == deadline)
        room.tick(at: deadline.count - 1)
        #expect(room.actions.isEmpty && room.offer.code == code)
        room.tick(at: deadline.count)
        #expect(room.failures == 1 && room.offer.code != code)
        // What comes of it later is no new attempt.
        for step in [PairingRequest.Step.commit, .reveal] {
            let answer = room.ask(PairingRequest(step, round: 1, room.world.random.bytes(32)), caller)
            #expect(answer == PairingAnswer(.wrong))
        }
        #expect(room.failures == 1)
        // A message that comes before the timer counts as late, too.
        #expect(room.ask(PairingRequest(.commit, room.world.random.bytes(32)), caller).state == .accepted)
        room.now += CodePairing.patience
        #expect(room.ask(PairingRequest(.reveal, room.world.random.bytes(32)), caller) == PairingAnswer(.wrong))
        #expect(room.failures == 2)
        #expect(try room.type() == nil)
    }

    @Test func offerEndsAfterItsTime() throws {
        var (room, duringAttempt) = (Room(), Room())
        #expect(room.offer.deadline == Milliseconds(clamping: PairingOffer.duration))
        room.tick(at: PairingOffer.duration - 1)
        #expect(room.actions.isEmpty)
        let code = try #require(room.offer.code)
        room.now = PairingOffer.duration
        #expect(try room.type(code) == .notPairing)
        #expect(room.actions == [.ended(.timedOut)])
        // An attempt does not make it longer.
        duringAttempt.now = PairingOffer.duration - 1
        let caller = duringAttempt.connect()
        #expect(duringAttempt.ask(PairingRequest(.commit, duringAttempt.world.random.bytes(32)), caller).state == .accepted)
        #expect(duringAttempt.offer.deadline == Milliseconds(clamping: PairingOffer.duration))
        duringAttempt.tick(at: PairingOffer.duration)
        #expect(duringAttempt.actions == [.ended(.timedOut)])
        duringAttempt.close(caller)
        #expect(duringAttempt.actions.count == 1)
    }

    @Test func personStopsIt() throws {
        var room = Room()
        let code = try #require(room.offer.code)
        room.offer.stop()
        #expect(try room.type(code) == .notPairing)
        room.tick(at: PairingOffer.duration)
        #expect(room.actions.isEmpty && room.offer.code == nil)
    }

    @Test func ownEndpointIsRefusedAndCountsNothing() throws {
        var room = Room()
        let (code, own) = (room.offer.code, room.connect(room.world.screen))
        for step in [PairingRequest.Step.commit, .reveal, .prove] {
            #expect(room.ask(PairingRequest(step, room.world.random.bytes(32)), own) == PairingAnswer(.wrong))
        }
        #expect(room.actions.isEmpty && room.offer.code == code)
    }

    // MARK: Messages

    @Test(arguments: 0..<10 as Range<UInt64>) func messagesRoundTrip(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        for step in [PairingRequest.Step.commit, .reveal, .prove] {
            let request = PairingRequest(step, round: Int.random(in: 0..<PairingCode.bits, using: &random), random.bytes(32))
            let message = try ValueSetEncoder().encode(request)
            #expect(message == ["step": .string(step.rawValue), "round": .int(Int64(request.round)), "value": .data(request.value)])
            #expect(try ValueSetDecoder().decode(PairingRequest.self, from: message) == request)
        }
        for state in [PairingAnswer.State.accepted, .wrong, .busy, .notPairing] {
            let answer = PairingAnswer(state, state == .accepted ? random.bytes(32) : nil)
            let message = try ValueSetEncoder().encode(answer)
            #expect(message["state"] == .string(state.rawValue) && message["value"]?.data == answer.value)
            #expect(try ValueSetDecoder().decode(PairingAnswer.self, from: message) == answer)
        }
    }

    @Test(
        arguments: [
            [:], ["step": "commit"], ["step": "commit", "round": 0], ["step": "other", "round": 0, "value": .data([])],
            ["step": "commit", "round": "0", "value": .data([])], ["step": "commit", "round": .uint(.max), "value": .data([])],
            ["step": "commit", "round": 0, "value": "text"], ["step": "commit", "value": .data([])],
        ] as [ValueSet]
    )
    func whatIsNoRequestIsRefused(message: ValueSet) {
        #expect(throws: DecodingError.self) { try ValueSetDecoder().decode(PairingRequest.self, from: message) }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

/// What strangers may do while a person has made the device visible to receive.
@Suite struct ReceptionOfferTests {
    private static func id(_ number: UInt8) -> EndpointID { EndpointID(digest: Digest256(hashing: [number])) }

    private static func source(_ number: UInt8) throws -> KnockGate.Source {
        KnockGate.Source(try #require(IPAddress(bytes: [10, 0, 0, number])), isOnLink: true)
    }

    /// A stranger of an address of its own connects.
    private static func open(_ offer: inout ReceptionOffer, _ number: UInt8, from source: UInt8? = nil) throws -> Bool {
        offer.opened(by: id(number), from: try Self.source(source ?? number), at: 0)
    }

    private static func ask(_ offer: inout ReceptionOffer, _ number: UInt8, from source: UInt8? = nil, at now: Milliseconds) throws -> Bool
    {
        offer.ask(id(number), from: try Self.source(source ?? number), at: now)
    }

    private static func close(_ offer: inout ReceptionOffer, _ number: UInt8, from source: UInt8? = nil) throws {
        offer.closed(by: id(number), from: try Self.source(source ?? number))
    }

    private static func mayOffer(_ offer: inout ReceptionOffer, _ number: UInt8, at now: Milliseconds) -> Bool {
        offer.mayOffer(id(number), at: now)
    }

    /// Each stranger is a new id, of an address.
    private static func refuse(_ offer: inout ReceptionOffer, _ number: UInt8, from source: UInt8) throws -> Bool {
        guard try open(&offer, number, from: source) else { return false }
        let isAsked = try ask(&offer, number, from: source, at: 0)
        if isAsked { offer.answered(id(number), isAccepted: false, at: 0) }
        try close(&offer, number, from: source)
        return isAsked
    }

    @Test func transferThatIsAcceptedOutlivesTheTenMinutes() throws {
        var offer = ReceptionOffer(at: 0)
        #expect(offer.deadline == 600_000 && offer.state == .visible)
        #expect(try Self.open(&offer, 1) && Self.open(&offer, 2))
        #expect(try Self.ask(&offer, 1, at: 0))
        offer.answered(Self.id(1), isAccepted: true, at: 0)
        offer.progressed(Self.id(1), at: 599_000)
        offer.tick(at: 600_000)
        #expect(offer.state == .finishing(.timedOut) && offer.deadline == nil)
        // It may come back for the rest. Nobody else may ask for anything.
        #expect(offer.mayOffer(Self.id(1), at: 600_000) && !offer.mayOffer(Self.id(2), at: 600_000))
        #expect(try !Self.ask(&offer, 1, at: 600_000), "another transfer is a new question")
        #expect(try !Self.ask(&offer, 2, at: 600_000))
        let again = offer.opened(by: Self.id(1), from: try Self.source(1), at: 600_000)
        #expect(again)
        #expect(try !Self.open(&offer, 3))
        try Self.close(&offer, 1)
        #expect(offer.state == .finishing(.timedOut))
        try Self.close(&offer, 1)
        #expect(offer.state == .over(.timedOut), "the session of a stranger who was not accepted holds nothing up")
    }

    @Test func timeIsOverAlsoIfNobodyHasTicked() throws {
        var offer = ReceptionOffer(at: 0)
        #expect(try Self.open(&offer, 1))
        #expect(try !Self.ask(&offer, 1, at: 600_000))
        #expect(offer.state == .over(.timedOut))
        #expect(!Self.mayOffer(&offer, 2, at: 600_000))
    }

    /// A question that is on the screen when the time is over can still be answered.
    @Test func openQuestionIsAnswered() throws {
        for isAccepted in [true, false] {
            var offer = ReceptionOffer(at: 0)
            #expect(try Self.open(&offer, 1))
            #expect(try Self.ask(&offer, 1, at: 599_999))
            offer.tick(at: 600_000)
            #expect(offer.state == .finishing(.timedOut))
            offer.answered(Self.id(1), isAccepted: isAccepted, at: 0)
            #expect(offer.state == (isAccepted ? .finishing(.timedOut) : .over(.timedOut)))
        }
    }

    @Test func addressIsAskedAboutThreeTimesInVain() throws {
        var offer = ReceptionOffer(at: 0)
        for number in 0..<3 { #expect(try Self.refuse(&offer, UInt8(number), from: 9)) }
        #expect(try !Self.refuse(&offer, 3, from: 9), "a new id of the same address")
        #expect(try Self.refuse(&offer, 4, from: 10))
    }

    @Test func twelveRefusalsEndIt() throws {
        var offer = ReceptionOffer(at: 0)
        for number in 0..<11 { #expect(try Self.refuse(&offer, UInt8(number), from: UInt8(number))) }
        #expect(offer.state == .visible)
        #expect(try Self.refuse(&offer, 11, from: 11))
        #expect(offer.state == .over(.tooManyRefusals))
        #expect(try !Self.open(&offer, 12))
    }

    @Test func addressHasOneQuestionAtATime() throws {
        var offer = ReceptionOffer(at: 0)
        #expect(try Self.open(&offer, 1, from: 9) && Self.open(&offer, 2, from: 9) && Self.open(&offer, 3, from: 10))
        #expect(try Self.ask(&offer, 1, from: 9, at: 0))
        #expect(try !Self.ask(&offer, 2, from: 9, at: 0) && Self.ask(&offer, 3, from: 10, at: 0))
        offer.answered(Self.id(1), isAccepted: true, at: 0)
        #expect(try Self.ask(&offer, 2, from: 9, at: 0))
        // Who was accepted is asked about again, and a no then takes nothing back.
        #expect(try !Self.ask(&offer, 1, from: 9, at: 0))
        offer.answered(Self.id(2), isAccepted: false, at: 0)
        #expect(try Self.ask(&offer, 1, from: 9, at: 0))
        offer.answered(Self.id(1), isAccepted: false, at: 0)
        #expect(offer.isWanted(Self.id(1), at: 0) && !offer.isWanted(Self.id(2), at: 0))
    }

    /// The limits are those of each address, also for one who comes from two.
    @Test func addressesOfOneStrangerCountEachForItself() throws {
        var offer = ReceptionOffer(at: 0)
        for source: UInt8 in [1, 2] { for _ in 0..<2 { #expect(try Self.open(&offer, 7, from: source)) } }
        #expect(try !Self.open(&offer, 7, from: 1) && !Self.open(&offer, 7, from: 2))
        for _ in 0..<3 {
            #expect(try Self.ask(&offer, 7, from: 1, at: 0) && !Self.ask(&offer, 7, from: 2, at: 0))
            offer.answered(Self.id(7), isAccepted: false, at: 0)
        }
        #expect(try !Self.ask(&offer, 7, from: 1, at: 0) && !Self.ask(&offer, 7, from: 3, at: 0))
        #expect(try Self.ask(&offer, 7, from: 2, at: 0))
    }

    @Test func transferThatBringsNothingKeepsNoSession() throws {
        var offer = ReceptionOffer(at: 0)
        #expect(try Self.open(&offer, 1) && Self.ask(&offer, 1, at: 0))
        offer.answered(Self.id(1), isAccepted: true, at: 0)
        #expect(offer.isWanted(Self.id(1), at: 59_999) && !offer.isWanted(Self.id(1), at: 60_000))
        offer.progressed(Self.id(1), at: 50_000)
        #expect(offer.isWanted(Self.id(1), at: 109_999) && !offer.isWanted(Self.id(1), at: 110_000))
        offer.tick(at: 600_000)
        #expect(!Self.mayOffer(&offer, 1, at: 600_000))
        try Self.close(&offer, 1)
        #expect(offer.state == .over(.timedOut))
        // Nothing is noted of those who were not accepted.
        offer.progressed(Self.id(2), at: 0)
        #expect(!offer.isWanted(Self.id(2), at: 0))
    }

    @Test func sessionsAreLimited() throws {
        var offer = ReceptionOffer(at: 0)
        #expect(try Self.open(&offer, 1, from: 9) && Self.open(&offer, 2, from: 9) && !Self.open(&offer, 3, from: 9))
        for number in 10..<16 { #expect(try Self.open(&offer, UInt8(number))) }
        #expect(try !Self.open(&offer, 20))
        try Self.close(&offer, 10)
        #expect(try Self.open(&offer, 20))
        // What was never opened cannot be asked about.
        #expect(try !Self.ask(&offer, 99, at: 0))
        offer.answered(Self.id(99), isAccepted: true, at: 0)
        try Self.close(&offer, 99)
        #expect(!offer.isWanted(Self.id(99), at: 0))
    }

    @Test func stopEndsAllOfIt() throws {
        var offer = ReceptionOffer(at: 0)
        #expect(try Self.open(&offer, 1))
        #expect(try Self.ask(&offer, 1, at: 0))
        offer.answered(Self.id(1), isAccepted: true, at: 0)
        offer.stop()
        #expect(offer.state == .over(.stopped) && offer.deadline == nil)
        #expect(!Self.mayOffer(&offer, 1, at: 0))
        offer.stop()
        offer.tick(at: 600_000)
        #expect(offer.state == .over(.stopped))
    }

    /// Whatever strangers do, nobody is asked more than the limits permit, and in the end it is over.
    @Test(arguments: 0..<20 as Range<UInt64>) func floodsStayWithinTheLimits(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var (offer, now) = (ReceptionOffer(at: 0), Int64(0))
        struct Session: Hashable {
            let number: UInt8
            let source: UInt8
        }
        // By the number of the stranger, and by its address.
        var (asked, refused): ([UInt8: UInt8], [UInt8: Int]) = ([:], [:])
        var sessions: [Session: Int] = [:]
        for _ in 0..<2_000 {
            now += Int64.random(in: 0...500, using: &random)
            let number = UInt8.random(in: 0..<40, using: &random)
            let time = Milliseconds(clamping: now)
            switch Int.random(in: 0..<4, using: &random) {
            case 0:
                // A stranger may come from two addresses.
                let source = Bool.random(using: &random) ? number % 8 : (number + 1) % 8
                if try offer.opened(by: Self.id(number), from: Self.source(source), at: time) {
                    sessions[Session(number: number, source: source), default: 0] += 1
                }
            case 1:
                guard let session = sessions.keys.filter({ $0.number == number }).min(by: { $0.source < $1.source }) else { break }
                if try Self.ask(&offer, number, from: session.source, at: time) {
                    #expect(offer.state == .visible && now < 600_000 && refused[session.source, default: 0] < 3)
                    #expect(!asked.values.contains(session.source) && asked[number] == nil)
                    asked[number] = session.source
                }
            case 2:
                guard let source = asked.removeValue(forKey: number) else { break }
                let isAccepted = Bool.random(using: &random)
                if !isAccepted { refused[source, default: 0] += 1 }
                offer.answered(Self.id(number), isAccepted: isAccepted, at: time)
            default:
                // An open question keeps its session.
                guard asked[number] == nil, let session = sessions.keys.filter({ $0.number == number }).randomElement(using: &random)
                else { break }
                let left = (sessions[session] ?? 1) - 1
                sessions[session] = left > 0 ? left : nil
                try Self.close(&offer, number, from: session.source)
            }
            #expect(sessions.values.reduce(0, +) <= ReceptionOffer.maximumSessions)
            for source in 0..<8 as Range<UInt8> {
                let count = sessions.reduce(0) { $0 + ($1.key.source == source ? $1.value : 0) }
                #expect(count <= ReceptionOffer.sessionsOfAnAddress)
            }
        }
        for number in asked.keys { offer.answered(Self.id(number), isAccepted: false, at: 0) }
        for (session, count) in sessions { for _ in 0..<count { try Self.close(&offer, session.number, from: session.source) } }
        offer.tick(at: Milliseconds(clamping: 600_000))
        let isOver = if case .over = offer.state { true } else { false }
        #expect(isOver, "seed \(seed): \(offer.state)")
    }
}

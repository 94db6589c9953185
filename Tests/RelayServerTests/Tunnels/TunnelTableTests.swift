// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Testing

@testable import RelayServer

@Suite struct TunnelTableTests {
    static let endpoints = (0..<5).map { _ in EndpointID(P256SigningKey().publicKey) }
    static let tokens = TunnelTable.Tokens(opener: Array(repeating: 1, count: 32), target: Array(repeating: 2, count: 32))
    static let (openerChannel, host) = (ChannelID(1), ChannelID(2))

    private var random = SystemRandomNumberGenerator()

    /// A table with a tunnel from the first endpoint to the second.
    private func opened(timeout: Milliseconds = 30_000, limits: Limits = Limits()) throws -> (TunnelTable, TunnelID) {
        var table = TunnelTable(limits: limits)
        var random = random
        let id = TunnelID(using: &random)
        try table.open(id, Self.opening(timeout: timeout), tokens: Self.tokens, now: 0)
        return (table, id)
    }

    private static func opening(_ opener: Int = 0, _ target: Int = 1, timeout: Milliseconds = 30_000) -> TunnelTable.Opening {
        .init(opener: endpoints[opener], openerChannel: openerChannel, target: endpoints[target], timeout: timeout)
    }

    private func offered() throws -> (TunnelTable, TunnelID) {
        var (table, id) = try opened()
        let isFirst = table.offer(id, to: Self.host, now: 5_000)
        #expect(isFirst)
        return (table, id)
    }

    /// Entrants 1 (the opener's) and 2.
    private func paired() throws -> (TunnelTable, TunnelID) {
        var (table, id) = try offered()
        #expect(table.enter(id, token: Self.tokens.opener, as: EntrantID(1)) == [])
        let actions = table.enter(id, token: Self.tokens.target, as: EntrantID(2))
        #expect(actions == [.pair(id, generation: 1, opener: EntrantID(1), target: EntrantID(2))])
        return (table, id)
    }

    private func expectEmpty(_ table: TunnelTable) {
        #expect(table.tunnels.isEmpty)
        #expect(table.pending.isEmpty)
        for endpoint in Self.endpoints { #expect(table.tunnels(of: endpoint).isEmpty) }
    }

    @Test func tunnelIsOfferedPairedUsedAndClosed() throws {
        var (table, id) = try opened()
        #expect(table.offers(to: Self.endpoints[1]) == [id])
        #expect(table.offers(to: Self.endpoints[0]) == [])
        (table, id) = try paired()
        #expect(table.offers(to: Self.endpoints[1]) == [])
        #expect(table.pending.isEmpty)
        let used = table.use(id, generation: 1)
        #expect(used)
        #expect(table.expire(now: 9_000_000) == [])
        // The two see to each other's end.
        #expect(table.left(id, EntrantID(1)) == [])
        #expect(table.left(id, EntrantID(2)) == [])
        expectEmpty(table)
    }

    @Test func candidatesAreTakenFromTheSidesOnly() throws {
        var (table, id) = try opened()
        func take(_ endpoint: Int, on channel: ChannelID, isHost: Bool = true, _ table: inout TunnelTable) -> TunnelTable.Side? {
            table.takeCandidates(in: id, by: Self.endpoints[endpoint], on: channel, isHost: isHost)
        }
        // Nobody else has heard of it.
        #expect(take(0, on: Self.openerChannel, &table) == nil)
        _ = table.offer(id, to: Self.host, now: 0)
        #expect(take(2, on: ChannelID(9), &table) == nil)
        #expect(take(0, on: ChannelID(9), &table) == nil)
        #expect(take(1, on: ChannelID(9), isHost: false, &table) == nil)
        for _ in 0..<8 {
            #expect(take(0, on: Self.openerChannel, &table) == .opener)
            #expect(take(1, on: Self.host, &table) == .target)
        }
        #expect(take(0, on: Self.openerChannel, &table) == nil)
        #expect(take(1, on: Self.host, &table) == nil)
        table.remove(id)
        #expect(take(1, on: Self.host, &table) == nil)
    }

    @Test func onlyTheTokensOfTheTunnelAreAccepted() throws {
        var (table, id) = try opened()
        // Not before the offer.
        #expect(table.enter(id, token: Self.tokens.opener, as: EntrantID(1)) == nil)
        _ = table.offer(id, to: Self.host, now: 0)
        var other = random
        #expect(table.enter(TunnelID(using: &other), token: Self.tokens.opener, as: EntrantID(1)) == nil)
        for token in [[], [1], Array(repeating: 3, count: 32), Self.tokens.opener + [1], Array(Self.tokens.opener.dropLast())] {
            #expect(table.enter(id, token: token, as: EntrantID(1)) == nil)
        }
        (table, id) = try paired()
        _ = table.use(id, generation: 1)
        #expect(table.enter(id, token: Self.tokens.opener, as: EntrantID(3)) == nil)
        #expect(table.enter(id, token: Self.tokens.target, as: EntrantID(3)) == nil)
        _ = table.left(id, EntrantID(1))
        #expect(table.enter(id, token: Self.tokens.opener, as: EntrantID(3)) == nil)
    }

    @Test func newerConnectionReplacesTheOlderUntilBytesPass() throws {
        var (table, id) = try offered()
        _ = table.enter(id, token: Self.tokens.opener, as: EntrantID(1))
        #expect(table.enter(id, token: Self.tokens.opener, as: EntrantID(2)) == [.dismiss(EntrantID(1), .replaced)])
        #expect(table.left(id, EntrantID(1)) == [])
        let first = table.enter(id, token: Self.tokens.target, as: EntrantID(3))
        #expect(first == [.pair(id, generation: 1, opener: EntrantID(2), target: EntrantID(3))])
        let second = table.enter(id, token: Self.tokens.target, as: EntrantID(4))
        #expect(second == [.dismiss(EntrantID(3), .replaced), .pair(id, generation: 2, opener: EntrantID(2), target: EntrantID(4))])
        // The first pairing is no longer valid.
        let usesOld = table.use(id, generation: 1)
        let usesNew = table.use(id, generation: 2)
        #expect(!usesOld && usesNew)
        #expect(table.left(id, EntrantID(3)) == [])
        #expect(table.enter(id, token: Self.tokens.target, as: EntrantID(5)) == nil)
    }

    @Test func entrantMayReturnBeforeThePairing() throws {
        var (table, id) = try offered()
        _ = table.enter(id, token: Self.tokens.opener, as: EntrantID(1))
        #expect(table.left(id, EntrantID(1)) == [])
        #expect(table.enter(id, token: Self.tokens.opener, as: EntrantID(2)) == [])
        #expect(table.enter(id, token: Self.tokens.target, as: EntrantID(3))?.count == 1)
        // Paired, and gone without a byte.
        #expect(table.left(id, EntrantID(2)) == [.close(EntrantID(3))])
        expectEmpty(table)
        #expect(table.left(id, EntrantID(3)) == [])
    }

    @Test func unpairedTunnelTimesOut() throws {
        var (table, id) = try opened()
        #expect(table.expire(now: 29_999) == [])
        #expect(table.expire(now: 30_000) == [.fail(id, Self.openerChannel, .timedOut)])
        expectEmpty(table)
        (table, id) = try offered()
        _ = table.enter(id, token: Self.tokens.opener, as: EntrantID(1))
        #expect(table.expire(now: 14_999) == [])
        #expect(
            table.expire(now: 15_000)
                == [.dismiss(EntrantID(1), .timedOut), .fail(id, Self.openerChannel, .timedOut), .fail(id, Self.host, .timedOut)]
        )
        expectEmpty(table)
        #expect(table.enter(id, token: Self.tokens.target, as: EntrantID(2)) == nil)
        // No wait is longer than five minutes, even if the opener asks for more.
        (table, id) = try opened(timeout: 9_000_000_000_000_000)
        #expect(table.expire(now: 300_000).count == 1)
    }

    @Test func offerIsRepeatedOnTheTargetsNextChannel() throws {
        var (table, id) = try offered()
        #expect(table.offers(to: Self.endpoints[1]) == [id])
        let isFirst = table.offer(id, to: ChannelID(9), now: 14_000)
        #expect(!isFirst)
        #expect(table.expire(now: 15_000).last == .fail(id, ChannelID(9), .timedOut))
    }

    @Test func eachSideCanDecline() throws {
        var (table, id) = try offered()
        _ = table.enter(id, token: Self.tokens.opener, as: EntrantID(1))
        // Not others, nor the target's clients, nor other processes of the opener.
        #expect(table.decline(id, by: Self.endpoints[2], on: ChannelID(7), isHost: true) == [])
        #expect(table.decline(id, by: Self.endpoints[1], on: ChannelID(7), isHost: false) == [])
        #expect(table.decline(id, by: Self.endpoints[0], on: ChannelID(7), isHost: true) == [])
        #expect(
            table.decline(id, by: Self.endpoints[1], on: Self.host, isHost: true)
                == [.dismiss(EntrantID(1), .closed), .fail(id, Self.openerChannel, .declined)]
        )
        expectEmpty(table)
        (table, id) = try offered()
        _ = table.enter(id, token: Self.tokens.target, as: EntrantID(2))
        #expect(
            table.decline(id, by: Self.endpoints[0], on: Self.openerChannel, isHost: true)
                == [.dismiss(EntrantID(2), .closed), .fail(id, Self.host, .cancelled)]
        )
        (table, id) = try paired()
        #expect(table.decline(id, by: Self.endpoints[1], on: Self.host, isHost: true) == [])
        #expect(table.tunnels.count == 1)
    }

    @Test func pairedTunnelOutlivesItsControlChannels() throws {
        var (table, id) = try offered()
        #expect(table.closed(Self.host, of: Self.endpoints[1]) == [])
        #expect(table.closed(ChannelID(9), of: Self.endpoints[0]) == [])
        #expect(table.closed(Self.openerChannel, of: Self.endpoints[0]) == [.fail(id, Self.host, .cancelled)])
        expectEmpty(table)
        (table, id) = try paired()
        #expect(table.closed(Self.openerChannel, of: Self.endpoints[0]) == [])
        #expect(table.tunnels.count == 1)
    }

    @Test(arguments: [0, 1])
    func revokedEndpointLosesItsTunnels(who: Int) throws {
        var (table, id) = try paired()
        _ = table.use(id, generation: 1)
        #expect(table.revoke(Self.endpoints[2]) == [])
        #expect(table.revoke(Self.endpoints[who]) == [.close(EntrantID(1)), .close(EntrantID(2))])
        expectEmpty(table)
        (table, id) = try offered()
        let told: TunnelTable.Action = who == 0 ? .fail(id, Self.host, .cancelled) : .fail(id, Self.openerChannel, .notFound)
        #expect(table.revoke(Self.endpoints[who]) == [told])
        expectEmpty(table)
    }

    @Test func tunnelsPerEndpointAreLimited() throws {
        var limits = Limits()
        limits[.sessionsPerEndpoint] = 2
        var (table, id) = try opened(limits: limits)
        var random = random
        // As opener and target together.
        try table.open(TunnelID(using: &random), Self.opening(1, 2), tokens: Self.tokens, now: 0)
        for (opener, target) in [(1, 3), (3, 1)] {
            #expect(throws: LimitExceeded(limit: .sessionsPerEndpoint, allowed: 2, requested: 3)) {
                try table.open(TunnelID(using: &random), Self.opening(opener, target), tokens: Self.tokens, now: 0)
            }
        }
        #expect(table.tunnels.count == 2)
        table.remove(id)
        try table.open(TunnelID(using: &random), Self.opening(3, 1), tokens: Self.tokens, now: 0)
    }

    @Test func stopDismissesWaitingEntrantsAndThenClosesAll() throws {
        var (table, id) = try offered()
        _ = table.enter(id, token: Self.tokens.opener, as: EntrantID(1))
        #expect(table.stop() == [.dismiss(EntrantID(1), .closed)])
        (table, id) = try paired()
        #expect(table.stop() == [])
        #expect(table.closeAll() == [.close(EntrantID(1)), .close(EntrantID(2))])
        expectEmpty(table)
    }

    /// For any order of events: an entrant is dismissed at most once, a pair consists of two entrants, and in
    /// the end nothing is left.
    @Test(arguments: 0..<50 as Range<UInt64>)
    func randomEventsKeepTheInvariants(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var table = TunnelTable(limits: Limits())
        var (ids, inside, over): ([TunnelID], [EntrantID: TunnelID], Set<EntrantID>) = ([], [:], [])
        var (lastEntrant, now): (UInt64, Milliseconds) = (0, 0)
        for _ in 0..<400 {
            now = now + Milliseconds(clamping: Int64.random(in: 0...3_000, using: &generator))
            let id = ids.randomElement(using: &generator) ?? TunnelID(using: &generator)
            var actions: [TunnelTable.Action] = []
            switch Int.random(in: 0..<10, using: &generator) {
            case 0:
                let pair = Array(0..<5).shuffled(using: &generator)
                let new = TunnelID(using: &generator)
                if (try? table.open(new, Self.opening(pair[0], pair[1]), tokens: Self.tokens, now: now)) != nil { ids.append(new) }
            case 1: _ = table.offer(id, to: Self.host, now: now)
            case 2, 3, 4:
                lastEntrant += 1
                let token = Bool.random(using: &generator) ? Self.tokens.opener : Self.tokens.target
                guard let entered = table.enter(id, token: token, as: EntrantID(lastEntrant)) else { continue }
                inside[EntrantID(lastEntrant)] = id
                actions = entered
            case 5: _ = table.use(id, generation: Int.random(in: 1...2, using: &generator))
            case 6:
                guard let (entrant, tunnel) = inside.randomElement(using: &generator) else { continue }
                inside[entrant] = nil
                actions = table.left(tunnel, entrant)
            case 7: actions = table.expire(now: now)
            case 8: actions = table.decline(id, by: Self.endpoints[1], on: Self.host, isHost: true)
            default:
                if Int.random(in: 0..<8, using: &generator) == 0 {
                    actions = table.revoke(Self.endpoints.randomElement(using: &generator) ?? Self.endpoints[0])
                }
            }
            for action in actions {
                switch action {
                case .dismiss(let entrant, _), .close(let entrant):
                    #expect(over.insert(entrant).inserted, "seed \(seed)")
                case .pair(let tunnel, _, let opener, let target):
                    #expect(inside[opener] == tunnel && inside[target] == tunnel, "seed \(seed)")
                    #expect(over.isDisjoint(with: [opener, target]), "seed \(seed)")
                case .fail: break
                }
            }
            #expect(table.pending.allSatisfy { table.tunnels[$0]?.phase.isPaired == false }, "seed \(seed)")
        }
        for (entrant, tunnel) in inside { _ = table.left(tunnel, entrant) }
        _ = table.expire(now: now + 1_000_000)
        expectEmpty(table)
    }
}

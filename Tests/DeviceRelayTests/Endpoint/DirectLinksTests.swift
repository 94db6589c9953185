// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Testing

@testable import DeviceRelay

@Suite struct DirectLinksTests {
    private final class Connection {}
    private typealias Links = DirectLinks<Connection>

    private let target = EndpointID(P256SigningKey().publicKey)

    private func begin(_ links: inout Links, now: Int64) throws -> Int {
        let attempt = links.begin(target, now: now)
        return try #require(attempt)
    }

    private func begins(_ links: Links, now: Int64) -> Bool {
        var links = links
        return links.begin(target, now: now) != nil
    }

    private func open(_ links: inout Links, now: Int64) throws -> Connection {
        let attempt = try begin(&links, now: now)
        let connection = Connection()
        let isOpen = links.opened(target, attempt, connection)
        try #require(isOpen)
        return connection
    }

    @Test func thereIsOneConnectionToATarget() throws {
        var links = Links()
        let attempt = try begin(&links, now: 0)
        #expect(links.isBusy(target))
        #expect(!begins(links, now: 0))
        let connection = Connection()
        let isOpen = links.opened(target, attempt, connection)
        #expect(isOpen)
        #expect(links[target] === connection)
        #expect(!begins(links, now: 0))
        #expect(links.all.map(\.target) == [target])
    }

    @Test func closedConnectionIsReplacedAtOnce() throws {
        var links = Links()
        let first = try open(&links, now: 0)
        links.remove(target)
        #expect(links.all.isEmpty)
        let second = try open(&links, now: 0)
        // The end of the first one comes late.
        let isCurrent = links.ended(target, first, now: 0)
        #expect(!isCurrent)
        #expect(links[target] === second)
    }

    @Test func wayThatLeadsToNothingRestsAndIsLookedForAtTheEndOfItsRest() throws {
        var (links, now): (Links, Int64) = (Links(), 0)
        #expect(links.pause(of: target, now: now) == Links.interval)
        for rest: Int64 in [2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
            links.failed(target, try begin(&links, now: now), now: now)
            #expect(!links.isBusy(target))
            #expect(links.pause(of: target, now: now) == rest)
            #expect(!begins(links, now: now + rest - 1))
            now += rest
            #expect(links.pause(of: target, now: now) == Links.interval)
        }
        // A way that opens and carries no answer is no better.
        _ = links.ended(target, try open(&links, now: now), now: now)
        #expect(links.pause(of: target, now: now) == 30_000)
        now += 30_000
        let connection = try open(&links, now: now)
        links.succeeded(target)
        _ = links.ended(target, connection, now: now)
        #expect(links.pause(of: target, now: now) == 2_000)
    }

    @Test func earlierAttemptsCountNoMore() throws {
        var links = Links()
        let attempt = try begin(&links, now: 0)
        links.removeAll()
        let isOpen = links.opened(target, attempt, Connection())
        #expect(!isOpen)
        links.failed(target, attempt, now: 0)
        #expect(begins(links, now: 0))
    }
}

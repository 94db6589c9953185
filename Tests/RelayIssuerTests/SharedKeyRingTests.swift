// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if Postgres
import Foundation
import RelayPostgres
import RelayProtocol
import RelayTesting
import Testing

@testable import RelayIssuer

/// Issuers of several nodes change their signing keys together, also while one of them is cut off from the database.
@Suite(.enabled(if: PostgresServer.isPossible)) struct SharedKeyRingTests {
    private static let day: Int64 = 86_400_000

    private struct Published {
        var time: Int64
        var keys: Set<String>
    }

    @Test func removedKeyIsNoticedElsewhere() async throws {
        let database = try await PostgresServer.shared.makeDatabase()
        let master = MasterKey(randomBytes(32))
        let stores = [try PostgresIssuerStore(database, master: master), try PostgresIssuerStore(database, master: master)]
        let rings = stores.map { KeyRing(store: $0, master: master) }
        let first = try await rings[0].signer(at: 5).id
        #expect(try await rings[1].signer(at: 6).id == first)
        #expect(try await rings[1].look().isEmpty)
        try await rings[0].remove(first, at: 7)
        await #expect(throws: IssuerError.unknownSigningKey) { try await rings[0].remove(first, at: 8) }
        let next = try await rings[0].signer(at: 8).id
        #expect(next != first)
        for ring in rings {
            #expect(try await ring.look() == [first])
            #expect(try await ring.look().isEmpty)
            #expect(try await ring.signer(at: 9).id == next)
            #expect(try await ring.published(at: 9).keys.map(\.kid) == [next])
        }
        for store in stores { try store.close() }
    }

    /// A token is accepted by whoever has fetched the keys within a day before, from any node.
    @Test(arguments: 0..<6) func everySignatureIsKnown(seed: UInt64) async throws {
        let server = try await PostgresServer.shared
        let database = try await server.makeDatabase()
        let master = MasterKey(randomBytes(32))
        let proxy = try await CuttingProxy(to: database)
        // The second node has the proxy in between.
        let stores = [
            try PostgresIssuerStore(database, master: master), try PostgresIssuerStore(proxy.parameters, master: master),
        ]
        let rings = stores.map { KeyRing(store: $0, master: master) }
        var random = SeededGenerator(seed: seed)
        var (time, signed, sets) = (Int64(0), Set<String>(), [Published]())
        var failures = 0
        for _ in 0..<150 {
            // Sometimes nobody asks for long.
            let pause = Int.random(in: 0..<8, using: &random) == 0 ? 100 * Self.day : 6 * Self.day
            time += Int64.random(in: 0...pause, using: &random)
            let node = Int.random(in: 0...1, using: &random)
            proxy.isCut = Int.random(in: 0..<3, using: &random) == 0
            let now = Milliseconds(clamping: time)
            do {
                let id = try await rings[node].signer(at: now).id
                signed.insert(id)
                for ring in rings {
                    guard let keys = try? await ring.published(at: now).keys.compactMap(\.kid) else { continue }
                    sets.append(Published(time: time, keys: Set(keys)))
                }
                for set in sets where set.time > time - Self.day {
                    #expect(set.keys.contains(id), "fetched at \(set.time), and it is \(time)")
                }
            } catch {
                // It signs with no key rather than with an old one.
                failures += 1
                #expect(node == 1 && proxy.isCut)
            }
        }
        #expect(signed.count > 5 && failures > 0)
        for store in stores { try store.close() }
        await proxy.end()
    }
}
#endif

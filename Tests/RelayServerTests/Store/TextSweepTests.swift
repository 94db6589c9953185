// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Testing

@testable import RelayServer

/// The relay's rows that are looked up by a text: a row is found by its own text, byte for byte, and by no other.
@Suite(.timeLimit(.minutes(Sweep.isFull ? 600 : 10))) struct TextSweepTests {
    @Test(arguments: [true, false]) func rowsAreFoundByTheirOwnTextOnly(isCaching: Bool) async throws {
        var random = SeededGenerator(seed: Sweep.seed)
        let texts = TextVariants.texts(of: "Player K\u{E9}", Sweep.count(100, full: 2_000), using: &random)
        let (account, owner) = (AccountID(String(repeating: "a", count: 32)), Identity(issuer: "issuer", subject: "subject"))
        let endpoint = EndpointRow.sample(1, account)
        try await SQLiteStore(isCaching: isCaching).transact { store in
            try store.addAccount(account, identity: owner, time: 1)
            try store.put(endpoint)
            func apps() throws -> Set<[UInt8]> { Set(try store.registrations(of: endpoint.id).map { Array($0.appID.utf8) }) }
            var stored: Set<[UInt8]> = []
            for text in texts {
                let (bytes, what) = (Array(text.utf8), "\(text.debugDescription), seed \(Sweep.seed)" as Comment)
                let identity = Identity(issuer: text, subject: text)
                let registration = RegistrationRow(appID: text, version: 1, registration: bytes)
                if bytes.contains(0) {
                    // SQLite would take the text before it.
                    #expect(throws: (any Error).self, what) { try store.account(of: identity) }
                    #expect(throws: (any Error).self, what) { try store.isRemoved(identity) }
                    #expect(throws: (any Error).self, what) { try store.add(AccountIdentity(identity, added: 1), to: account) }
                    #expect(throws: (any Error).self, what) { try store.put(registration, of: endpoint.id, in: account) }
                    #expect(throws: (any Error).self, what) { try store.removeRegistration(text, of: endpoint.id, in: account) }
                    #expect(throws: (any Error).self, what) { try store.appIdentity(text) }
                    #expect(throws: (any Error).self, what) { try store.setName(text, of: account) }
                    #expect(throws: (any Error).self, what) { try store.addRevokedToken(text, ends: 10, now: 1) }
                    #expect(throws: (any Error).self, what) { try store.endpoint(keyThumbprint: text) }
                    continue
                }
                let isStored = stored.contains(bytes)
                #expect(try (store.account(of: identity) != nil) == isStored, what)
                #expect(try (store.appIdentity(text) != nil) == isStored, what)
                #expect(try apps().contains(bytes) == isStored, what)
                guard stored.insert(bytes).inserted else { continue }
                try store.add(AccountIdentity(identity, added: 1), to: account)
                try store.put(registration, of: endpoint.id, in: account)
                try store.put(AppIdentity(id: text, proof: text, created: 1))
                try store.addRevokedToken(text, ends: 10, now: 1)
                try store.setName(text, of: account)
                #expect(try store.name(of: account).map { Array($0.utf8) } == bytes, what)
            }
            #expect(try apps() == stored)
            #expect(Set(try store.revokedTokens().map { Array($0.digest.utf8) }) == stored)
            for bytes in stored {
                let text = String(decoding: bytes, as: UTF8.self)
                #expect(try store.account(of: Identity(issuer: text, subject: text)) == account)
                #expect(try store.appIdentity(text).map { Array($0.proof.utf8) } == bytes)
            }
            // A removal takes its own row only.
            var left = stored
            for bytes in stored.prefix(20) {
                let text = String(decoding: bytes, as: UTF8.self)
                try store.removeRegistration(text, of: endpoint.id, in: account)
                try store.removeAppIdentity(text)
                left.remove(bytes)
                #expect(try apps() == left, "\(text.debugDescription), seed \(Sweep.seed)")
            }
            #expect(Set(try store.appIdentities().map { Array($0.id.utf8) }) == left)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import DeviceRelay

/// A hostile relay against the whole SDK: its messages go over a socket, and accepted statements are stored.
@Suite(.timeLimit(.minutes(5))) struct ScriptedRelayAttackTests {
    @Test func changedAccountMakesNoForgedEndpointKnown() async throws {
        let device = try await ScriptedDevice()
        let (friend, fake) = (try Member("Friend", account: "first"), try Member("Fake", account: "second"))
        device.relay.script.withLock { $0 = .init(account: "first", enumeration: [.endpointAdded(friend.added())]) }
        try await device.platform.accounts.add(device.account)
        try await device.enumerated()
        #expect(device.listed()[friend.id] == .pinned)
        // The person signs in again, and the relay uses that to name another account.
        device.relay.script.withLock { $0 = .init(account: "second", enumeration: [.endpointAdded(fake.added())]) }
        let link = try JoinLink(origin: device.relay.url, relay: device.relay.id, invite: Secret("code"), plainHTTP: .allowed)
        var events = device.platform.remoteSystems().makeAsyncIterator()
        #expect(await events.next() == .enumerationCompleted)
        try await device.endpoint().startAgain(joining: link)
        while let event = await events.next() {
            guard case .error(let error) = event, error.code == .accountChanged else { continue }
            break
        }
        #expect(device.listed() == [fake.id: .new])
        // Also in the next process, and at each later enumeration.
        for _ in 0..<2 {
            try await device.restart()
            #expect(device.listed() == [fake.id: .new])
        }
        #expect(try await device.stored { try $0.pins() }.isEmpty)
        await device.end()
    }

    @Test func revocationHoldsWhenTheRelayRejectsIt() async throws {
        let device = try await ScriptedDevice()
        let victim = try Member("Victim")
        device.relay.script.withLock { $0.enumeration = [.endpointAdded(victim.added())] }
        try await device.platform.accounts.add(device.account)
        try await device.enumerated()
        device.relay.script.withLock { $0.revoking = .refused }
        await #expect(throws: AccountError.self) { try await device.platform.revoke(victim.id, for: device.account) }
        #expect(device.listed().isEmpty)
        device.relay.send(.endpointAdded(victim.added()))
        try await device.restart()
        #expect(device.listed().isEmpty)
        #expect(await !device.platform.confirm(victim.id, for: device.account))
        await device.end()
    }

    @Test func unansweredRevocationIsSentAgain() async throws {
        let device = try await ScriptedDevice()
        let victim = try Member("Victim")
        device.relay.script.withLock { $0.enumeration = [.endpointAdded(victim.added())] }
        try await device.platform.accounts.add(device.account)
        try await device.enumerated()
        device.relay.script.withLock { $0.revoking = .hangsUp }
        await #expect { try await device.platform.revoke(victim.id, for: device.account) } throws: {
            ($0 as? AccountError)?.code == .networkNotAvailable
        }
        #expect(device.listed().isEmpty)
        device.relay.script.withLock { $0.revoking = .ok }
        try await device.restart()
        var statements: [[UInt8]] = []
        for await message in device.relay.received {
            guard case .endpointRevoke(let revoke) = message else { continue }
            #expect(revoke.endpoint == victim.id)
            statements.append(revoke.revocation.bytes)
            if statements.count == 2 { break }
        }
        // The very bytes, signed by this endpoint.
        #expect(Set(statements).count == 1)
        let own = try device.endpoint()
        let signed = try Signed<Revocation>(
            verifying: try #require(statements.first),
            by: own.id,
            key: own.identityKey.publicKey,
            account: "account"
        )
        #expect(signed.payload.endpoint == victim.id)
        await device.end()
    }

    @Test func forgedRevocationIsNotPermanent() async throws {
        let device = try await ScriptedDevice()
        let (victim, fake) = (try Member("Victim"), try Member("Fake"))
        device.relay.script.withLock { $0.enumeration = [.endpointAdded(victim.added())] }
        try await device.platform.accounts.add(device.account)
        try await device.enumerated()
        device.relay.send(.endpointAdded(fake.added()))
        let forged = Blob<BlobKinds.Revocation>(try fake.revocation(of: victim.id).encoded)
        device.relay.send(.endpointRemoved(.init(endpoint: victim.id, isRevoked: true, revocation: forged)))
        let withdrawn = await device.platform.directories.first { $0["me"]?[victim.id] == nil && $0["me"]?[fake.id] != nil }
        #expect(withdrawn != nil)
        device.relay.send(.endpointAdded(victim.added()))
        let again = await device.platform.directories.first { $0["me"]?[victim.id] != nil }
        #expect(again?["me"]?[victim.id]?.trust == .pinned)
        #expect(try await device.stored { try $0.pins() }.map(\.endpoint) == [victim.id])
        #expect(try await device.stored { try $0.revoked() }.isEmpty)
        await device.end()
    }
}

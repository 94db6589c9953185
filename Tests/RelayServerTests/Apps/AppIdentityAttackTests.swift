// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

/// An endpoint publishes an app in the name of another publisher.
@Suite struct AppIdentityAttackTests {
    @Test func appOfAnIdentityThatIsNotProvenIsRefused() async throws {
        let world = try await CoreWorld()
        let device = TestDevice(subject: "me")
        let account = try await world.account(of: device)
        let session = try await world.open(device)
        let registry = AppRegistry(
            store: world.store,
            key: RelayKey(),
            now: { 1_000 },
            proof: DomainProof { [store = world.store.base] _ in await records(of: store) }
        )
        var version: UInt64 = 0
        func publish(_ appID: String, _ identity: String?) async throws -> ControlErrorCode? {
            version += 1
            let registration = AppRegistration(
                version: version,
                account: account,
                endpoint: device.id,
                appID: appID,
                displayName: "Player",
                schemes: [],
                identity: identity
            )
            let signed = try Signed(registration, key: device.identityKey)
            let answers = try await session.send(.publish(.init(ref: testRef(), registration: Blob(signed.encoded))))
            return if case .failure(let failure)? = answers.first { failure.code } else { nil }
        }
        #expect(try await publish("player", nil) == nil)
        for identity in ["player.invalid", "default", "PLAYER.invalid"] {
            #expect(try await publish("player", identity) == .identityNotProven, "\(identity)")
        }
        // Registered by the operator, and not proven.
        _ = try await registry.add("player.invalid", [.init(.ios, id: "player")])
        #expect(try await publish("player", "player.invalid") == .identityNotProven)
        _ = try await registry.verify("player.invalid")
        #expect(try await publish("player", "player.invalid") == nil)
        for (app, identity) in [("other", "player.invalid"), ("player", "Player.invalid"), ("Player", "player.invalid")] {
            #expect(try await publish(app, identity) == .identityNotProven, "\(app) of \(identity)")
        }
        // A new app of the identity is not proven, and the others stay so.
        _ = try await registry.add("player.invalid", [.init(.ios, id: "other")])
        #expect(try await publish("other", "player.invalid") == .identityNotProven)
        #expect(try await publish("player", "player.invalid") == nil)
        _ = try await registry.remove("player.invalid", [])
        #expect(try await publish("player", "player.invalid") == .identityNotProven)
        #expect(try await world.store.base.transact { try $0.registrations(of: device.id).map(\.appID) } == ["player"])
    }
}

/// What a name server would answer: the proofs of all identities.
private func records(of store: any RelayStore) async -> [[UInt8]] {
    let identities = (try? await store.transact { try $0.appIdentities() }) ?? []
    return identities.map { Array((DomainProof.recordPrefix + $0.proof).utf8) }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization
import Testing

@testable import RelayServer

/// An endpoint publishes an app in the name of another publisher.
@Suite struct AppIdentityAttackTests {
    @Test func appOfAnIdentityThatIsNotProvenIsRefused() async throws {
        let world = try await CoreWorld()
        let device = TestDevice(subject: "me")
        let account = try await world.account(of: device)
        let session = try await world.open(device)
        let registry = registry(of: world)
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
        #expect(try await world.store.base.transact { try $0.registrations(of: device.id).map(\.appID) } == [])
    }

    /// Ways in which a proof goes.
    enum Withdrawal: CaseIterable {
        case identityRemoved, appRemoved, domainLost
    }

    @Test(arguments: Withdrawal.allCases) func appGoesWithTheProofOfItsIdentity(withdrawal: Withdrawal) async throws {
        let world = try await CoreWorld()
        let (device, host) = (TestDevice(subject: "me"), TestDevice(subject: "me"))
        let account = try await world.account(of: device)
        let hasRecords = Mutex(true)
        let registry = registry(of: world) { hasRecords.withLock { $0 } }
        let session = try await world.open(device)
        let player = AppIdentity.App(.ios, id: "player")
        _ = try await registry.add("player.invalid", [player])
        _ = try await registry.verify("player.invalid")
        for (version, app) in zip(1..., [("player", "player.invalid"), ("other", nil)] as [(String, String?)]) {
            let registration = AppRegistration(
                version: UInt64(version),
                account: account,
                endpoint: device.id,
                appID: app.0,
                displayName: "Player",
                identity: app.1
            )
            let signed = try Signed(registration, key: device.identityKey)
            let answers = try await session.send(.publish(.init(ref: testRef(), registration: Blob(signed.encoded))))
            guard case .ok? = answers.first else { return #expect(Bool(false), "\(answers)") }
        }
        let watcher = try await world.open(host)
        _ = try await watcher.send(.watch(.init(ref: testRef())))
        switch withdrawal {
        case .identityRemoved: _ = try await registry.remove("player.invalid", [])
        case .appRemoved: _ = try await registry.remove("player.invalid", [player])
        case .domainLost:
            hasRecords.withLock { $0 = false }
            await #expect(throws: AppRegistry.Failure.self) { try await registry.verify("player.invalid") }
        }
        // Who watches is told, and who asks later does not see it.
        func apps(_ registrations: [Blob<BlobKinds.AppRegistration>]) throws -> [String] {
            try registrations.map { try Unverified<AppRegistration>(decoding: $0.bytes).payload.appID }
        }
        let told = try await watcher.receive().compactMap { message -> [String]? in
            guard case .endpointUpdated(let update) = message, update.endpoint == device.id else { return nil }
            return try update.registrations.map(apps)
        }
        #expect(told == [["other"]])
        let listed = try await watcher.send(.watch(.init(ref: testRef()))).compactMap { message -> [String]? in
            guard case .endpointAdded(let added) = message, added.endpoint == device.id else { return nil }
            return try apps(added.registrations)
        }
        #expect(listed == [["other"]])
    }
}

/// The registry of a world's operator, for whom each domain is proven while it has a record.
private func registry(of world: CoreWorld, hasRecords: @escaping @Sendable () -> Bool = { true }) -> AppRegistry {
    var registry = AppRegistry(
        store: world.store,
        key: RelayKey(),
        now: { 1_000 },
        proof: DomainProof { [store = world.store.base] _ in await hasRecords() ? records(of: store) : [] }
    )
    registry.withdrawn = { [core = world.core] in core.tellRegistrations(of: $0) }
    return registry
}

/// What a name server would answer: the proofs of all identities.
private func records(of store: any RelayStore) async -> [[UInt8]] {
    let identities = (try? await store.transact { try $0.appIdentities() }) ?? []
    return identities.map { Array((DomainProof.recordPrefix + $0.proof).utf8) }
}

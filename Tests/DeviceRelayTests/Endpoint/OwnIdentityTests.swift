// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

/// An endpoint's record, account and keys, on real storage.
@Suite(.timeLimit(.minutes(5))) struct OwnIdentityTests {
    private actor World {
        nonisolated let endpoint: EndpointContext
        nonisolated var unownedExecutor: UnownedSerialExecutor { endpoint.loop.unownedExecutor }
        private let identity: OwnIdentity

        init(_ directory: TemporaryDirectory, name: String = "Device") throws {
            endpoint = try .sample(directory) { $0.device = DeviceDescription(name: name, kind: .desktop, platform: .linux) }
            identity = OwnIdentity(endpoint, stored: try endpoint.journal.read { try $0.ownEndpoint() }, invitationProof: nil)
        }

        func account() -> String? { identity.account }
        func record() throws -> EndpointRecord { try identity.currentRecord().payload }
        func welcomed(_ name: String? = nil) {
            identity.welcomed(.init(limits: Limits(), intervals: .init(), urls: [], features: [], accountName: name))
        }
        nonisolated var shownName: String? { endpoint.status.value.accountName }
        func storedName() throws -> String? { try endpoint.storage.accountName() }
        func signedInAgain() { identity.signedInAgain() }
        func setInvitationProof(_ secret: [UInt8]) { identity.setInvitationProof(Secret(secret)) }

        func keys(for id: [UInt8]) throws -> [[UInt8]] { try identity.agreementKeys(for: id).map(\.publicKey.keyID) }

        /// - Returns: whether another account was stated; `nil` if the rejection is final.
        func wrongAccount(_ account: String?, _ name: String? = nil) throws -> Bool? {
            guard case .account(let stated)? = try identity.recovery(from: rejected(.wrongAccount, account, name)) else { return nil }
            return identity.adopt(stated)
        }

        /// - Returns: whether there is a newer record to send.
        func recordOutdated() throws -> Bool {
            if case .record? = try identity.recovery(from: rejected(.recordOutdated)) { true } else { false }
        }

        func unauthenticated() throws -> Bool { try identity.recovery(from: rejected(.tokenInvalid)) != nil }

        private func rejected(_ code: ControlErrorCode, _ account: String? = nil, _ name: String? = nil) -> RelayMessage.Rejected {
            .init(code: code, message: "no", retry: true, account: account, accountName: name)
        }

        func end() async throws {
            try await endpoint.journal.write { _ in }
            await endpoint.loop.end()
            endpoint.journal.close()
        }
    }

    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    /// The relay chooses the text, and a person reads it.
    @Test func nameOfTheAccountIsKeptAndSafeToShow() async throws {
        let world = try World(directory)
        #expect(world.shownName == nil)
        #expect(try await world.wrongAccount("account", "Anna") == false)
        #expect(world.shownName == "Anna")
        await world.welcomed("\u{1B}]0;x\u{202E}" + String(repeating: "y", count: 100))
        let shown = try #require(world.shownName)
        #expect(shown.count == 64)
        #expect(DisplayText.isPlain(shown))
        await world.welcomed("Zoë")
        try await world.end()
        let next = try World(directory)
        #expect(try await next.storedName() == "Zoë")
        await next.welcomed(nil)
        #expect(next.shownName == nil)
        try await next.end()
    }

    @Test func recordIsSignedAgainOnlyIfItChanges() async throws {
        let world = try World(directory)
        let first = try await world.record()
        #expect(first.account == "unknown")
        #expect(try await world.record() == first)
        #expect(try await world.wrongAccount("account") == false)
        let second = try await world.record()
        #expect(second.account == "account")
        #expect(second.version > first.version)
        await world.setInvitationProof([1, 2, 3])
        let third = try await world.record()
        #expect(third.invitationProof != nil)
        #expect(third.version > second.version)
        try await world.end()
        // The next process has the account and the record, and keeps the proof of its invitation.
        let next = try World(directory)
        #expect(await next.account() == "account")
        #expect(try await next.record() == third)
        try await next.end()
        let renamed = try World(directory, name: "Kitchen")
        let fourth = try await renamed.record()
        #expect(fourth.name == "Kitchen")
        #expect(fourth.version > third.version)
        #expect(fourth.invitationProof == third.invitationProof)
        try await renamed.end()
    }

    @Test func accountChangesOnlyAfterANewSignIn() async throws {
        let world = try World(directory)
        #expect(try await world.wrongAccount(nil) == nil)
        #expect(try await world.wrongAccount("a\u{0}b") == nil)
        #expect(try await world.wrongAccount("first") == false)
        #expect(try await world.wrongAccount("second") == nil)
        #expect(await world.account() == "first")
        await world.signedInAgain()
        #expect(try await world.wrongAccount("second") == true)
        #expect(await world.account() == "second")
        // The sign-in allows one change.
        #expect(try await world.wrongAccount("third") == nil)
        await world.signedInAgain()
        await world.welcomed()
        #expect(try await world.wrongAccount("third") == nil)
        try await world.end()
    }

    @Test func outdatedRecordIsReplacedTwice() async throws {
        let world = try World(directory)
        let first = try await world.record()
        #expect(try await world.recordOutdated())
        let second = try await world.record()
        #expect(second.version > first.version)
        // The counter may come from a backup, so the second attempt uses the time.
        #expect(try await world.recordOutdated())
        #expect(try await world.record().version > 1_700_000_000_000)
        #expect(try await !world.recordOutdated())
        await world.welcomed()
        #expect(try await world.recordOutdated())
        try await world.end()
    }

    @Test func otherRejectionsNeedNoOtherRecord() async throws {
        let world = try World(directory)
        #expect(try await !world.unauthenticated())
        try await world.end()
    }

    @Test func keyOfTheRecordIsAmongTheKeys() async throws {
        let world = try World(directory)
        let id = try await world.record().agreementKey.keyID
        #expect(try await world.keys(for: id).first == id)
        #expect(try await world.keys(for: [1, 2, 3]).contains(id))
        try await world.end()
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayStorage
import RelayTesting
import Testing

@Suite struct StorageDirectoryTests {
    static let day: Int64 = 86_400_000

    @Test func storedFilesArePrivateToTheUser() async throws {
        let directory = try TemporaryDirectory()
        let storage = try directory.storage()
        let account = try storage.open(.sample("../../etc/passwd\0"), now: 0)
        _ = try storage.systemKey.load()
        let host = try storage.lockForHost()
        try await account.tokens.withExclusiveAccess { $0 = .sample }
        let modes = try directory.modes()
        #expect(modes.count > 8)
        for (name, mode) in modes { #expect(mode == 0o600 || mode == 0o700, "\(name)") }
        #expect(!modes.keys.contains { $0.contains("draft") || $0.contains("passwd") })
        withExtendedLifetime(host) {}
    }

    @Test func endpointKeysPersist() throws {
        let directory = try TemporaryDirectory()
        let first = try directory.storage().open(.sample(), now: 0)
        let second = try directory.storage().open(.sample(), now: 5)
        let (firstKey, secondKey) = (try first.identityKey().publicKey, try second.identityKey().publicKey)
        #expect(firstKey == secondKey)
        let agreement = (try first.agreementKeys().map(\.publicKey), try second.agreementKeys().map(\.publicKey))
        #expect(agreement.0 == agreement.1)
        #expect(agreement.0.count == 1)
        #expect(try directory.storage().scopes() == [.sample()])
    }

    @Test func eachAccountHasItsOwnIdentityKey() throws {
        let directory = try TemporaryDirectory()
        let storage = try directory.storage()
        let otherRelay = AccountScope(relay: RelayID(P256SigningKey().publicKey), accountID: "me")
        var keys: Set<SigningPublicKey> = []
        for scope in [.sample("me"), .sample("you"), otherRelay] { keys.insert(try storage.open(scope, now: 0).identityKey().publicKey) }
        #expect(keys.count == 3)
        #expect(try Set(storage.scopes()) == [.sample("me"), .sample("you"), otherRelay])
    }

    /// A pairing code serves one attempt, in whichever process, as long as another device can show it.
    @Test func pairingCodeIsUsedOnce() throws {
        let directory = try TemporaryDirectory()
        let codes = try ["0000 0000", "12345678"].map { try #require(PairingCode(parsing: $0)) }
        func account() throws -> AccountStorage { try directory.storage().open(.sample(), now: 0) }
        #expect(try !account().isUsed(codes[0], now: 0) && account().use(codes[0], now: 0))
        #expect(try account().isUsed(codes[0], now: 1) && !account().use(codes[0], now: 599_999))
        #expect(try !account().isUsed(codes[1], now: 1) && account().use(codes[1], now: 300_000))
        #expect(try !account().isUsed(codes[0], now: 600_000) && account().isUsed(codes[1], now: 600_000))
        // The clock goes back.
        #expect(try account().isUsed(codes[1], now: -1_000_000) && !account().use(codes[1], now: -1_000_000))
        #expect(try account().use(codes[0], now: 600_001))
    }

    @Test func systemKeyIsSharedByAllStorageDirectories() async throws {
        let directory = try TemporaryDirectory()
        let file = SystemKeyFile(path: "\(directory.path)/a/b/system.key")
        let keys = try await withThrowingTaskGroup(of: SigningPublicKey.self) { group in
            for _ in 0..<16 { group.addTask { try file.load().publicKey } }
            return try await group.reduce(into: Set()) { $0.insert($1) }
        }
        #expect(keys.count == 1)
        #expect(try keys.contains(directory.storage("one").systemKey.load().publicKey) == false)
        #expect(try directory.storage("one").systemKey.load().publicKey == directory.storage("two").systemKey.load().publicKey)
    }

    @Test func recordVersionsGrowAcrossInstances() throws {
        let directory = try TemporaryDirectory()
        let one = try directory.storage().open(.sample(), now: 0)
        let two = try directory.storage().open(.sample(), now: 0)
        #expect(try one.nextVersion() == 1)
        #expect(try two.nextVersion() == 2)
        #expect(try one.nextVersion() == 3)
        try two.raiseVersion(to: 40)
        try two.raiseVersion(to: 7)
        #expect(try one.nextVersion() == 41)
    }

    @Test func agreementKeysRotateAndAreKeptFor28Days() throws {
        let directory = try TemporaryDirectory()
        let account = try directory.storage().open(.sample(), now: 1000)
        let first = try account.agreementKeys().map(\.publicKey)
        let early = try account.rotateAgreementKey(now: 1000 + AccountStorage.agreementKeyLife - 1)
        #expect(early.keys.map(\.publicKey) == first)
        #expect(!early.isNew)

        let rotated = 1000 + AccountStorage.agreementKeyLife
        let both = try account.rotateAgreementKey(now: rotated)
        #expect(both.isNew)
        #expect(both.keys.count == 2)
        #expect(both.keys.last?.publicKey == first.first)
        let sealed = try first[0].seal([1, 2, 3], info: [], associatedData: [])
        let opened = try directory.storage().open(.sample(), now: 0).agreementKeys().last?
            .open(sealed.ciphertext, encapsulatedKey: sealed.encapsulatedKey, info: [], associatedData: [])
        #expect(opened == [1, 2, 3])

        let again = try account.rotateAgreementKey(now: rotated + AccountStorage.agreementKeyRetention - 1)
        #expect(again.keys.count == 2)
        let later = try account.rotateAgreementKey(now: rotated + AccountStorage.agreementKeyRetention)
        #expect(later.keys.map(\.publicKey) == both.keys.prefix(1).map(\.publicKey))
        #expect(try directory.modes().keys.filter { $0.contains("agreement-") }.count == 1)
    }

    @Test func agreementKeyWithAFutureTimeIsRotated() throws {
        let directory = try TemporaryDirectory()
        let account = try directory.storage().open(.sample(), now: 3650 * Self.day)
        #expect(try !account.rotateAgreementKey(now: Self.day).isNew)
        #expect(try account.rotateAgreementKey(now: Self.day + AccountStorage.agreementKeyLife).isNew)
        // Nor do the ends of time trap.
        for now in [Int64.min, .max, .min, 0] { _ = try account.rotateAgreementKey(now: now) }
    }

    @Test func removingAnAccountDestroysItsKeys() async throws {
        let directory = try TemporaryDirectory()
        let storage = try directory.storage()
        let key = try storage.open(.sample(), now: 0).identityKey().publicKey
        _ = try storage.open(.sample("other"), now: 0)
        try await storage.open(.sample(), now: 0).tokens.withExclusiveAccess { $0 = .sample }
        try storage.remove(.sample())
        #expect(try directory.modes().keys.allSatisfy { !$0.contains(AccountScope.sample().name) })
        #expect(try storage.scopes() == [.sample("other")])
        #expect(try storage.open(.sample(), now: 0).identityKey().publicKey != key)
    }

    @Test func keyWithoutItsStorageIsDiscarded() throws {
        let directory = try TemporaryDirectory()
        let keys = try FileKeyStorage(directory: "\(directory.path)/keychain")
        func storage() throws -> StorageDirectory {
            try StorageDirectory(
                path: "\(directory.path)/storage",
                systemKey: SystemKeyFile(path: "\(directory.path)/system.key"),
                keys: keys
            )
        }
        let key = try storage().open(.sample(), now: 0).identityKey().publicKey
        try FileManager.default.removeItem(atPath: "\(directory.path)/storage")
        #expect(try keys.identityKey(of: AccountScope.sample().name)?.publicKey == key)
        let reinstalled = try storage()
        #expect(try keys.identityKey(of: AccountScope.sample().name) == nil)
        #expect(try reinstalled.open(.sample(), now: 0).identityKey().publicKey != key)
    }

    @Test func storageDirectoryHasOneHost() throws {
        let directory = try TemporaryDirectory()
        let storage = try directory.storage()
        var host: StorageDirectory.HostLock? = try storage.lockForHost()
        withExtendedLifetime(host) {}
        let holder = "process \(ProcessInfo.processInfo.processIdentifier) (\(ProcessInfo.processInfo.processName))"
        #expect(throws: StorageError(.endpointInUse(by: holder), path: storage.path)) { _ = try directory.storage().lockForHost() }
        host = nil
        _ = try directory.storage().lockForHost()
    }

    @Test func hostLockEndsWithItsProcess() async throws {
        let directory = try TemporaryDirectory()
        _ = try directory.storage()
        let other = Process()
        other.executableURL = URL(fileURLWithPath: "/bin/sh")
        other.arguments = ["-c", "exec 9>>\"$1/host.lock\"; flock 9 && echo held && exec sleep 60", "sh", "\(directory.path)/storage"]
        let output = try ProcessStart.reading(other)
        _ = try output.read(upToCount: 4)
        #expect(throws: StorageError.self) { _ = try directory.storage().lockForHost() }
        other.terminate()
        try await ProcessRun.end(of: other)
        _ = try directory.storage().lockForHost()
    }

    @Test func invalidDirectoriesThrowStorageErrors() throws {
        let directory = try TemporaryDirectory()
        try Data("x".utf8).write(to: URL(fileURLWithPath: "\(directory.path)/file"))
        #expect(throws: StorageError(.notADirectory, path: "\(directory.path)/file")) { _ = try directory.storage("file") }
        #expect(throws: StorageError(.notADirectory, path: "\(directory.path)/file")) { _ = try directory.storage("file/below") }
        #expect(throws: StorageError(.notWritable, path: "/proc/device-relay")) { _ = try StorageDirectory(path: "/proc/device-relay") }
        let open = "\(directory.path)/open"
        try FileManager.default.createDirectory(atPath: open, withIntermediateDirectories: true)
        try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: open)
        #expect(throws: StorageError(.accessibleToOthers, path: open)) { _ = try directory.storage("open") }
    }

    @Test(arguments: ["identity", "agreement-1", "account.cbor"]) func damagedFilesAreReportedAndKept(_ name: String) throws {
        let directory = try TemporaryDirectory()
        _ = try directory.storage().open(.sample(), now: 0)
        let found = try directory.modes().keys.first { $0.hasSuffix(name) }
        let path = "\(directory.path)/\(try #require(found))"
        try Data("rubbish".utf8).write(to: URL(fileURLWithPath: path))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
        #expect(throws: StorageError(.damaged, path: path)) {
            let account = try directory.storage().open(.sample(), now: 0)
            _ = try account.identityKey()
            _ = try account.agreementKeys()
        }
        #expect(FileManager.default.contents(atPath: path) == Data("rubbish".utf8))
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
        #expect(throws: StorageError(.accessibleToOthers, path: path)) {
            let account = try directory.storage().open(.sample(), now: 0)
            _ = try account.identityKey()
            _ = try account.agreementKeys()
        }
    }
}

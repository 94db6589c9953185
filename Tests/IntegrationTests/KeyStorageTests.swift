// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import Synchronization
import Testing

/// A platform whose keys are in the app's own storage.
@Suite(.timeLimit(.minutes(5))) struct KeyStorageTests {
    @Test func thePrivateKeysAreOnlyInTheStorageOfTheSettings() async throws {
        let home = try await TestHome()
        let storage = MemoryKeyStorage()
        let pc = try await home.device("PC") { $0.keyStorage = storage }
        let id = try pc.id
        #expect(storage.names.count == 2)
        #expect(!FileManager.default.fileExists(atPath: pc.settings.storageDirectory.appending(path: "keys").path))
        try await pc.restart()
        try await pc.connected()
        #expect(try pc.id == id)
        try await pc.platform.accounts.remove(pc.account)
        #expect(storage.names.isEmpty)
        await pc.platform.shutdown()
    }

    @Test func anErrorOfTheStorageIsThrown() async throws {
        let home = try await TestHome()
        let storage = MemoryKeyStorage()
        let pc = try await home.device("PC") { $0.keyStorage = storage }
        await pc.platform.shutdown()
        storage.lock()
        let again = pc.sibling()
        await #expect { try await again.start() } throws: {
            let error = $0 as? PlatformError
            return error?.code == .storageFailed && error?.message.contains("the device is locked") == true
        }
        await again.shutdown()
    }
}

/// Keys in memory. It uses only what an app can use.
private final class MemoryKeyStorage: KeyStorage {
    private struct State {
        var identity: [String: P256SigningKey] = [:]
        var agreement: [String: [Int: P256AgreementKey]] = [:]
        var link: [String: P256LinkKey] = [:]
        var isLocked = false
    }

    private struct Locked: Error, CustomStringConvertible {
        var description: String { "the device is locked" }
    }

    private let state = Mutex(State())

    /// One for each key.
    var names: [String] {
        state.withLock { state in
            Array(state.identity.keys) + state.agreement.flatMap { endpoint, keys in keys.keys.map { "\(endpoint) \($0)" } }
        }
    }

    func lock() { state.withLock { $0.isLocked = true } }

    private func unlocked<Result: Sendable>(_ body: (inout State) -> Result) throws -> Result {
        try state.withLock { state in
            guard !state.isLocked else { throw Locked() }
            return body(&state)
        }
    }

    func identityKey(of endpoint: String) throws -> (any IdentityKey)? { try unlocked { $0.identity[endpoint] } }

    func makeIdentityKey(of endpoint: String) throws -> any IdentityKey {
        let key = P256SigningKey()
        try unlocked { $0.identity[endpoint] = key }
        return key
    }

    func agreementKey(_ number: Int, of endpoint: String) throws -> (any AgreementKey)? {
        try unlocked { $0.agreement[endpoint]?[number] }
    }

    func makeAgreementKey(_ number: Int, of endpoint: String) throws -> any AgreementKey {
        let key = P256AgreementKey()
        try unlocked { $0.agreement[endpoint, default: [:]][number] = key }
        return key
    }

    func destroyAgreementKey(_ number: Int, of endpoint: String) throws { try unlocked { $0.agreement[endpoint]?[number] = nil } }

    func linkKey(of endpoint: String) throws -> (any LinkKey)? { try unlocked { $0.link[endpoint] } }

    func makeLinkKey(of endpoint: String) throws -> any LinkKey {
        let key = P256LinkKey()
        try unlocked { $0.link[endpoint] = key }
        return key
    }

    func destroyKeys(of endpoint: String) throws {
        try unlocked { state in
            state.link[endpoint] = nil
            state.identity[endpoint] = nil
            state.agreement[endpoint] = nil
        }
    }

    func endpoints() throws -> [String] { try unlocked { Array(Set($0.identity.keys).union($0.agreement.keys)) } }
}

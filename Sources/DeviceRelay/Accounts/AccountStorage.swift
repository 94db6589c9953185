// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
package import RelayProtocol
package import RelayStorage

/// The stored state of one endpoint: its keys, its counters, and the paths of its tokens and journal. Several processes
/// may use it at the same time, so nothing is cached: each call takes a lock briefly and reads the current state.
package struct AccountStorage: Sendable {
    /// How long an agreement key is used before the next one replaces it.
    package static let agreementKeyLife: Int64 = 90 * 86_400_000
    /// How long a replaced agreement key is kept to open commands sealed for it: the maximum life of a command.
    package static let agreementKeyRetention = CommandPeriod.maximumLife

    package let scope: AccountScope
    private let directory: String
    private let lock: String
    private let keyStorage: any KeyStorage

    init(scope: AccountScope, directory: String, lock: String, keys: any KeyStorage) {
        self.scope = scope
        self.directory = directory
        self.lock = lock
        self.keyStorage = keys
    }

    /// The stored metadata of the keys, without the keys themselves.
    struct StoredState: Codable, Hashable {
        struct Agreement: Codable, Hashable {
            var number: Int
            /// Milliseconds since 1970, by the local clock.
            var made: Int64
            /// When the next key replaced it.
            var replaced: Int64?
        }

        var scope: AccountScope
        /// The latest version of anything that the identity key signs.
        var version: UInt64
        /// The last one is the newest.
        var agreementKeys: [Agreement]
        /// The account's name at the relay, for people; absent if the relay has stated none.
        var accountName: String?
        /// The pairing codes that were tried lately; absent if there is none.
        var triedCodes: [TriedCode]?

        struct TriedCode: Codable, Hashable {
            var digest: [UInt8]
            /// Milliseconds since 1970, by the local clock.
            var time: Int64
        }

        /// The codes that another device may still show. After a change of the clock one may be kept for longer.
        func tried(now: Int64) -> [TriedCode] {
            (triedCodes ?? []).filter { !AccountStorage.isOver(min($0.time, now), PairingOffer.duration, now) }
        }
    }

    private func keys<Result>(_ body: (any KeyStorage) throws -> Result) throws(StorageError) -> Result {
        try StorageError.ofKeys(in: directory) { try body(keyStorage) }
    }

    package var directoryPath: String { directory }

    package var journalPath: String { "\(directory)/journal.sqlite" }

    package var tokens: FileTokenStorage { FileTokenStorage(directory: directory) }

    /// The key of this endpoint.
    package func identityKey() throws(StorageError) -> any IdentityKey {
        guard let key = try keys({ try $0.identityKey(of: scope.name) }) else { throw StorageError(.damaged, path: directory) }
        return key
    }

    /// The version of the next record or registration that the identity key signs. It is higher than all earlier versions,
    /// including those of other processes, and also after a crash.
    package func nextVersion() throws(StorageError) -> UInt64 {
        try FileLock.whileHolding(lock) { () throws(StorageError) in
            var facts = try readFacts()
            facts.version &+= 1
            try write(facts)
            return facts.version
        }
    }

    /// Whether the identity key has signed anything. The endpoint then has a journal, unless it was lost.
    package func hasSigned() throws(StorageError) -> Bool { try readFacts().version > 0 }

    /// Raises the version counter after the relay reported a newer record.
    package func raiseVersion(to known: UInt64) throws(StorageError) {
        try FileLock.whileHolding(lock) { () throws(StorageError) in
            var facts = try readFacts()
            guard known > facts.version else { return }
            facts.version = known
            try write(facts)
        }
    }

    /// The account's name at the relay, for people; `nil` if the relay has stated none.
    package func accountName() throws(StorageError) -> String? { try readFacts().accountName }

    package func setAccountName(_ name: String?) throws(StorageError) {
        try FileLock.whileHolding(lock) { () throws(StorageError) in
            var facts = try readFacts()
            guard facts.accountName != name else { return }
            facts.accountName = name
            try write(facts)
        }
    }

    /// Uses up a pairing code. A second attempt with the same code would give an attacker between the devices another wrong guess.
    /// - Parameter now: Milliseconds since 1970, by the local clock.
    /// - Returns: False if it was used in the last ten minutes, as long as another device can show it.
    package func use(_ code: PairingCode, now: Int64) throws(StorageError) -> Bool {
        try FileLock.whileHolding(lock) { () throws(StorageError) in
            var facts = try readFacts()
            let tried = facts.tried(now: now)
            guard !tried.contains(where: { $0.digest == Self.digest(of: code) }) else { return false }
            facts.triedCodes = tried.suffix(Self.maximumTriedCodes - 1) + [.init(digest: Self.digest(of: code), time: now)]
            try write(facts)
            return true
        }
    }

    /// Whether a pairing code was used up.
    package func isUsed(_ code: PairingCode, now: Int64) throws(StorageError) -> Bool {
        try readFacts().tried(now: now).contains { $0.digest == Self.digest(of: code) }
    }

    private static func digest(of code: PairingCode) -> [UInt8] { Digest256(hashing: Array("used \(code.text)".utf8)).bytes }

    /// More than a person types in ten minutes.
    private static let maximumTriedCodes = 64

    /// The key for direct paths. An endpoint of an older version gets one.
    package func linkKey() throws(StorageError) -> any LinkKey {
        try FileLock.whileHolding(lock) { () throws(StorageError) in
            if let key = try keys({ try $0.linkKey(of: scope.name) }) { return key }
            return try keys { try $0.makeLinkKey(of: scope.name) }
        }
    }

    /// The agreement keys, the newest first. The endpoint's record contains the first one.
    package func agreementKeys() throws(StorageError) -> [any AgreementKey] {
        try FileLock.whileHolding(lock) { () throws(StorageError) in try load(try readFacts()) }
    }

    /// Replaces the agreement key if it is due, and destroys replaced keys after their retention.
    /// - Parameter now: Milliseconds since 1970, by the local clock. If the clock has gone back, stored times are set to
    ///   `now`, so that a wrong clock does not keep a key for years.
    /// - Returns: The keys, the newest first, and whether the newest key was created now. The endpoint's record must contain a new key.
    package func rotateAgreementKey(now: Int64) throws(StorageError) -> (keys: [any AgreementKey], isNew: Bool) {
        try FileLock.whileHolding(lock) { () throws(StorageError) in
            let before = try readFacts()
            var facts = before
            for index in facts.agreementKeys.indices {
                facts.agreementKeys[index].made = min(facts.agreementKeys[index].made, now)
                facts.agreementKeys[index].replaced = facts.agreementKeys[index].replaced.map { min($0, now) }
            }
            var isNew = false
            if let newest = facts.agreementKeys.last, Self.isOver(newest.made, Self.agreementKeyLife, now) {
                let number = newest.number &+ 1
                // The key is stored before the facts that refer to it.
                _ = try keys { try $0.makeAgreementKey(number, of: scope.name) }
                facts.agreementKeys[facts.agreementKeys.count - 1].replaced = now
                facts.agreementKeys.append(StoredState.Agreement(number: number, made: now))
                isNew = true
            }
            let over = facts.agreementKeys.filter { $0.replaced.map { Self.isOver($0, Self.agreementKeyRetention, now) } ?? false }
            facts.agreementKeys.removeAll { over.contains($0) }
            if facts != before { try write(facts) }
            for key in over { try keys { try $0.destroyAgreementKey(key.number, of: scope.name) } }
            return (try load(facts), isNew)
        }
    }

    fileprivate static func isOver(_ start: Int64, _ period: Int64, _ now: Int64) -> Bool {
        let (age, overflow) = now.subtractingReportingOverflow(start)
        return overflow ? now > start : age >= period
    }

    private func load(_ facts: StoredState) throws(StorageError) -> [any AgreementKey] {
        var loaded: [any AgreementKey] = []
        for key in facts.agreementKeys.reversed() {
            let key = try keys { try $0.agreementKey(key.number, of: scope.name) }
            guard let key else { throw StorageError(.damaged, path: directory) }
            loaded.append(key)
        }
        return loaded
    }

    // MARK: State file

    static let factsName = "account.cbor"

    var factsPath: String { "\(directory)/\(Self.factsName)" }

    /// Creates the endpoint if it does not exist. Keys without a state file are left over from an earlier installation and are destroyed.
    func prepare(now: Int64) throws(StorageError) {
        if try PrivateFile.contents(of: factsPath) != nil {
            _ = try readFacts()
            return
        }
        try PrivateDirectory.make(directory)
        try keys { try $0.destroyKeys(of: scope.name) }
        _ = try keys { try $0.makeIdentityKey(of: scope.name) }
        _ = try keys { try $0.makeAgreementKey(1, of: scope.name) }
        try write(StoredState(scope: scope, version: 0, agreementKeys: [StoredState.Agreement(number: 1, made: now)]))
    }

    private func readFacts() throws(StorageError) -> StoredState {
        guard let facts = try Self.readFacts(factsPath), facts.scope == scope, !facts.agreementKeys.isEmpty else {
            throw StorageError(.damaged, path: factsPath)
        }
        return facts
    }

    static func readFacts(_ path: String) throws(StorageError) -> StoredState? {
        guard let bytes = try PrivateFile.contents(of: path) else { return nil }
        guard let set = try? ValueSet(decoding: bytes), let facts = try? ValueSetDecoder().decode(StoredState.self, from: set) else {
            throw StorageError(.damaged, path: path)
        }
        return facts
    }

    private func write(_ facts: StoredState) throws(StorageError) {
        guard let bytes = try? ValueSetEncoder().encode(facts).encodedBytes() else { throw StorageError(.damaged, path: factsPath) }
        try PrivateFile.replace(factsPath, with: bytes)
    }
}

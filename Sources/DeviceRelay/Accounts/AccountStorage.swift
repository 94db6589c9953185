// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// What one endpoint keeps: its keys, its counters, and the paths of its tokens and journal. Several processes may use it
/// side by side, so nothing is held in memory; each call takes a lock for a moment and reads what is there now.
package struct AccountStorage: Sendable {
    /// How long an agreement key is sealed for before the next one takes its place.
    package static let agreementKeyLife: Int64 = 90 * 86_400_000
    /// How long a replaced agreement key still opens what was sealed for it: no command lives longer.
    package static let agreementKeyRetention = CommandPeriod.longestLife

    package let scope: AccountScope
    private let directory: String
    private let lock: String
    private let keys: any KeyStorage

    init(scope: AccountScope, directory: String, lock: String, keys: any KeyStorage) {
        self.scope = scope
        self.directory = directory
        self.lock = lock
        self.keys = keys
    }

    /// What is known of the keys, without the keys.
    struct Facts: Codable, Hashable {
        struct Agreement: Codable, Hashable {
            var number: Int
            /// Milliseconds since 1970, by the own clock.
            var made: Int64
            /// When the next one took its place.
            var replaced: Int64?
        }

        var scope: AccountScope
        /// Of everything the identity key signs that has a version.
        var version: UInt64
        /// The newest is the last.
        var agreementKeys: [Agreement]
    }

    package var journalPath: String { "\(directory)/journal.sqlite" }

    package var tokens: FileTokenStorage { FileTokenStorage(directory: directory) }

    /// The key that this endpoint is.
    package func identityKey() throws(StorageError) -> any IdentityKey {
        guard let key = try keys.identityKey(of: scope) else { throw StorageError(.damaged, path: directory) }
        return key
    }

    /// A version for the next record or registration that the identity key signs: above all before it, also those of other
    /// processes, and also after a crash.
    package func nextVersion() throws(StorageError) -> UInt64 {
        try FileLock.whileHolding(lock) { () throws(StorageError) in
            var facts = try readFacts()
            facts.version &+= 1
            try write(facts)
            return facts.version
        }
    }

    /// After the relay said that it has a newer record: versions go on above this one.
    package func raiseVersion(to known: UInt64) throws(StorageError) {
        try FileLock.whileHolding(lock) { () throws(StorageError) in
            var facts = try readFacts()
            guard known > facts.version else { return }
            facts.version = known
            try write(facts)
        }
    }

    /// The agreement keys, the newest first. The first is the one for the endpoint's record.
    package func agreementKeys() throws(StorageError) -> [any AgreementKey] {
        try FileLock.whileHolding(lock) { () throws(StorageError) in try load(try readFacts()) }
    }

    /// Replaces the agreement key if its time has come, and destroys the replaced ones whose time is over.
    /// - Parameter now: Milliseconds since 1970, by the own clock. Where it has gone back, the times stored are brought back too, so
    ///   that a clock that was wrong once does not keep a key for years.
    /// - Returns: The keys, the newest first, and whether that is a new one, which the endpoint's record has to show.
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
                // The key first: what the facts name has to be there.
                _ = try keys.makeAgreementKey(number, of: scope)
                facts.agreementKeys[facts.agreementKeys.count - 1].replaced = now
                facts.agreementKeys.append(Facts.Agreement(number: number, made: now))
                isNew = true
            }
            let over = facts.agreementKeys.filter { $0.replaced.map { Self.isOver($0, Self.agreementKeyRetention, now) } ?? false }
            facts.agreementKeys.removeAll { over.contains($0) }
            if facts != before { try write(facts) }
            for key in over { try keys.destroy(.agreement(key.number), of: scope) }
            return (try load(facts), isNew)
        }
    }

    private static func isOver(_ start: Int64, _ period: Int64, _ now: Int64) -> Bool {
        let (age, overflow) = now.subtractingReportingOverflow(start)
        return overflow ? now > start : age >= period
    }

    private func load(_ facts: Facts) throws(StorageError) -> [any AgreementKey] {
        var loaded: [any AgreementKey] = []
        for key in facts.agreementKeys.reversed() {
            guard let key = try keys.agreementKey(key.number, of: scope) else { throw StorageError(.damaged, path: directory) }
            loaded.append(key)
        }
        return loaded
    }

    // MARK: The facts' file

    static let factsName = "account.cbor"

    var factsPath: String { "\(directory)/\(Self.factsName)" }

    /// Makes the endpoint unless it is there. What is found of its keys alone is left over from another life, and is destroyed.
    func prepare(now: Int64) throws(StorageError) {
        if try PrivateFile.contents(of: factsPath) != nil {
            _ = try readFacts()
            return
        }
        try PrivateFile.makeDirectory(directory)
        try keys.destroyAll(ofScopeNamed: scope.name)
        _ = try keys.makeIdentityKey(of: scope)
        _ = try keys.makeAgreementKey(1, of: scope)
        try write(Facts(scope: scope, version: 0, agreementKeys: [Facts.Agreement(number: 1, made: now)]))
    }

    private func readFacts() throws(StorageError) -> Facts {
        guard let facts = try Self.readFacts(factsPath), facts.scope == scope, !facts.agreementKeys.isEmpty else {
            throw StorageError(.damaged, path: factsPath)
        }
        return facts
    }

    static func readFacts(_ path: String) throws(StorageError) -> Facts? {
        guard let bytes = try PrivateFile.contents(of: path) else { return nil }
        guard let set = try? ValueSet(decoding: bytes), let facts = try? ValueSetDecoder().decode(Facts.self, from: set) else {
            throw StorageError(.damaged, path: path)
        }
        return facts
    }

    private func write(_ facts: Facts) throws(StorageError) {
        guard let bytes = try? ValueSetEncoder().encode(facts).encodedBytes() else { throw StorageError(.damaged, path: factsPath) }
        try PrivateFile.replace(factsPath, with: bytes)
    }
}

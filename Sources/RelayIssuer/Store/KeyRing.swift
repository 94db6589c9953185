// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// The opened signing keys. A request for a key renews the ring when a renewal is due.
final class KeyRing: Sendable {
    private let store: any IssuerStore
    private let master: MasterKey
    private let state = Mutex(State())

    private struct Opened {
        var ring = SigningKeyRing([])
        var keys: [String: P256SigningKey] = [:]
    }

    private struct State {
        var opened = Opened()
        /// How many transactions have begun, and which of them has read the opened keys.
        var (begun, read) = (0, 0)
        /// The keys that were opened once and are gone since the last look.
        var gone: Set<String> = []

        mutating func begin() -> Int {
            begun += 1
            return begun
        }

        /// What an earlier transaction has read may hold a key that is removed.
        mutating func take(_ renewed: Opened, of transaction: Int) {
            guard transaction > read else { return }
            gone.formUnion(Set(opened.keys.keys).subtracting(renewed.keys.keys))
            (opened, read) = (renewed, transaction)
        }
    }

    init(store: any IssuerStore, master: MasterKey) {
        self.store = store
        self.master = master
    }

    /// Returns the key that signs now, and its id.
    func signer(at now: Milliseconds) async throws(IssuerError) -> (id: String, key: P256SigningKey) {
        let opened = try await current(at: now)
        guard let entry = opened.ring.signer(at: now), let key = opened.keys[entry.id] else { throw .wrongMasterKey }
        return (entry.id, key)
    }

    /// Returns the public keys of the signing key, the next one, and those that signed recently.
    func published(at now: Milliseconds) async throws(IssuerError) -> JSONWebKeySet {
        let opened = try await current(at: now)
        return JSONWebKeySet(
            keys: opened.ring.entries.compactMap { entry in
                guard let key = opened.keys[entry.id] else { return nil }
                var published = JSONWebKey(key.publicKey)
                published.kid = entry.id
                published.use = "sig"
                published.alg = "ES256"
                return published
            }
        )
    }

    /// Returns the schedule as it is stored.
    func stored() async throws(IssuerError) -> SigningKeyRing {
        try await store.read { SigningKeyRing(try $0.sealedKeys().map(\.entry)) }
    }

    /// Removes a key before its time, because others may have it. If it signs, a new key signs from now on.
    func remove(_ id: String, at now: Milliseconds) async throws(IssuerError) {
        _ = try await renew { ring in
            let changes = ring.changes(removing: id, at: now)
            if changes.isEmpty { throw IssuerError.unknownSigningKey }
            return changes
        }
    }

    /// Reads the keys again if another process has changed them.
    /// - Returns: The keys that are gone since the last call.
    func look() async throws(IssuerError) -> Set<String> {
        let known = state.withLock { Set($0.opened.keys.keys) }
        // Before the first use of a key there is nothing to compare.
        if !known.isEmpty, Set(try await stored().entries.map(\.id)) != known { _ = try await renew { _ in [] } }
        return state.withLock { state in
            defer { state.gone = [] }
            return state.gone
        }
    }

    private func current(at now: Milliseconds) async throws(IssuerError) -> Opened {
        let known = state.withLock { $0.opened }
        if now < known.ring.nextChange { return known }
        return try await renew { $0.changes(at: now) }
    }

    /// - Parameter changes: What changes in the keys as they are stored.
    private func renew(_ changes: @escaping @Sendable (SigningKeyRing) throws -> [SigningKeyRing.Change]) async throws(IssuerError)
        -> Opened
    {
        let master = master
        let transaction = state.withLock { $0.begin() }
        // The transaction reads again, because another process may have changed the keys. So concurrent calls create one key.
        let renewed = try await store.write { records in
            for change in try changes(SigningKeyRing(try records.keys(openedBy: master).map(\.entry))) {
                switch change {
                case .create(let activates): try records.insert(P256SigningKey(), activates: activates, sealedBy: master)
                case .remove(let id): try records.removeKey(id)
                }
            }
            var opened = Opened()
            let keys = try records.keys(openedBy: master)
            opened.ring = SigningKeyRing(keys.map(\.entry))
            for (entry, key) in keys { opened.keys[entry.id] = key }
            return opened
        }
        state.withLock { $0.take(renewed, of: transaction) }
        return renewed
    }
}

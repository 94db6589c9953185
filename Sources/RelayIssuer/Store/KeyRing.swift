// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// The opened signing keys. A request for a key renews the ring when a renewal is due.
final class KeyRing: Sendable {
    private let store: any IssuerStore
    private let master: MasterKey
    private let opened = Mutex(Opened())

    private struct Opened {
        var ring = SigningKeyRing([])
        var keys: [String: P256SigningKey] = [:]
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

    private func current(at now: Milliseconds) async throws(IssuerError) -> Opened {
        let known = opened.withLock { $0 }
        if now < known.ring.nextChange { return known }
        let master = master
        // The transaction reads again, because another process may have changed the keys. So concurrent calls create one key.
        let renewed = try await store.write { records in
            for change in SigningKeyRing(try records.keys(openedBy: master).map(\.entry)).changes(at: now) {
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
        opened.withLock { $0 = renewed }
        return renewed
    }
}

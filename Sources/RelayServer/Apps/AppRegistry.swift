// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
package import RelayProtocol

/// The cross-device app identities of a relay and their push credentials.
package struct AppRegistry: Sendable {
    /// Why a change is not possible. The description contains advice.
    package struct Failure: Error, Hashable, CustomStringConvertible {
        package let description: String
    }

    private let store: any RelayStore
    private let key: RelayKey
    private let proof: DomainProof
    private let now: @Sendable () -> Milliseconds
    /// Called with the endpoints whose apps were withdrawn, by their accounts, because the proof of an identity was.
    package var withdrawn: @Sendable ([AccountID: Set<EndpointID>]) -> Void = { _ in }

    package init(store: any RelayStore, key: RelayKey, now: @escaping @Sendable () -> Milliseconds, proof: DomainProof = DomainProof()) {
        self.store = store
        self.key = key
        self.now = now
        self.proof = proof
    }

    /// All identities with their credentials. `default` is always among them.
    package func list() async throws -> [AdminApp] {
        try await store.transactGlobally { store in
            let credentials = try store.credentials()
            var identities = try store.appIdentities()
            if !identities.contains(where: { $0.id == AppIdentity.defaultID }) { identities.insert(Self.implicit, at: 0) }
            return identities.map { AdminApp($0, credentials) }
        }
    }

    /// Adds an identity, and apps to it. New apps have to be proven.
    package func add(_ domain: String, _ apps: [AppIdentity.App]) async throws -> AdminApp {
        guard let domain = AppIdentity.domain(domain) else {
            throw Failure(description: "an app identity is a domain such as apps.example.org, without a path")
        }
        let (proof, time) = (Self.randomText(16), now().count)
        return try await change(domain) { store, identity in
            if identity == nil, try store.appIdentities().count >= AppIdentity.maximumCount {
                throw Failure(description: "a relay has at most \(AppIdentity.maximumCount) app identities")
            }
            let others = try store.appIdentities().filter { $0.id != domain }
            for app in apps {
                if let owner = others.first(where: { $0.apps.contains(app) }) {
                    throw Failure(description: "\(app) belongs to \(owner.id): remove it there first")
                }
            }
            var changed = identity ?? AppIdentity(id: domain, proof: proof, created: time)
            let new = Set(apps).subtracting(changed.apps)
            changed.apps += new.sorted { ($0.platform.rawValue, $0.id) < ($1.platform.rawValue, $1.id) }
            for platform in AppIdentity.App.Platform.allCases
            where changed.apps.count(where: { $0.platform == platform }) > AppIdentity.maximumEntries {
                throw Failure(description: "an identity has at most \(AppIdentity.maximumEntries) apps for \(platform.rawValue)")
            }
            // The pushes of the others go on.
            changed.unproven.formUnion(new)
            return changed
        }
    }

    /// Removes apps from an identity; without apps, the identity with its credentials.
    /// - Returns: What remains; `nil` after the identity was removed.
    package func remove(_ id: String, _ apps: [AppIdentity.App]) async throws -> AdminApp? {
        guard !apps.isEmpty else {
            let time = now().count
            let withdrawn = try await store.transactGlobally { store in
                guard try store.appIdentity(id) != nil else { throw Self.unknown(id) }
                try store.removeAppIdentity(id)
                return try store.withdrawUnproven(of: id, time: time)
            }
            if !withdrawn.isEmpty { self.withdrawn(withdrawn) }
            return nil
        }
        return try await change(id) { _, identity in
            guard var identity else { throw Self.unknown(id) }
            if let missing = apps.first(where: { !identity.apps.contains($0) }) {
                throw Failure(description: "\(id) has no app \(missing)")
            }
            identity.apps.removeAll { apps.contains($0) }
            identity.unproven.subtract(apps)
            return identity
        }
    }

    /// Looks for the proof of a domain, and stores the result. If only new apps lack it, the others stay proven.
    package func verify(_ id: String) async throws -> (app: AdminApp, way: DomainProof.Way) {
        guard let checked = try await store.transactGlobally({ try $0.appIdentity(id) }), id != AppIdentity.defaultID else {
            throw Self.unknown(id)
        }
        let way: DomainProof.Way
        do throws(DomainProof.Failure) {
            way = try await proof.check(checked)
        } catch {
            var known = checked
            known.apps = checked.provenApps
            let hasOthers = !known.apps.isEmpty && known.apps != checked.apps
            let areOthersProven = hasOthers ? (try? await proof.check(known)) != nil : false
            if !areOthersProven {
                _ = try await change(id) { _, identity in
                    guard var identity else { throw Self.unknown(id) }
                    identity.verified = nil
                    return identity
                }
            }
            throw Failure(description: "\(id) is not proven: \(error)")
        }
        let time = now().count
        let app = try await change(id) { _, identity in
            guard var identity, identity.apps == checked.apps else {
                throw Failure(description: "the apps of \(id) have changed in the meantime: verify it again")
            }
            identity.verified = time
            identity.unproven = []
            return identity
        }
        return (app, way)
    }

    package func add(_ credential: StoredCredential, to id: String) async throws -> AdminApp {
        let rowID = Self.randomText(9)
        let sealed = try key.seal(Array(try JSONEncoder().encode(credential)), label: "push credential \(rowID)")
        let (time, type, label) = (now().count, credential.type, credential.label)
        return try await change(id) { store, identity in
            guard let identity = identity ?? (id == AppIdentity.defaultID ? Self.implicit : nil) else { throw Self.unknown(id) }
            let same = try store.credentials().count { $0.identity == id && $0.type == type }
            guard same < AppIdentity.maximumEntries else {
                throw Failure(description: "an identity has at most \(AppIdentity.maximumEntries) credentials of one push type")
            }
            return identity
        } then: { store in
            try store.add(CredentialRow(id: rowID, identity: id, type: type, label: label, sealed: sealed, created: time))
        }
    }

    package func removeCredential(_ credential: String, of id: String) async throws -> AdminApp {
        try await change(id) { store, identity in
            guard let identity, try store.credentials().contains(where: { $0.id == credential && $0.identity == id }) else {
                throw Failure(description: "\(id) has no credentials \(credential): see `relayd app list`")
            }
            return identity
        } then: {
            try $0.removeCredential(credential)
        }
    }

    // MARK: For wakes

    /// The credentials in use, by their ids, with the identity that each belongs to, and of its apps those that are proven.
    package func usableCredentials() async throws -> [(id: String, identity: AppIdentity, credential: StoredCredential)] {
        let (rows, identities) = try await store.transactGlobally { (try $0.credentials(), try $0.appIdentities()) }
        let usable = Dictionary(
            uniqueKeysWithValues: identities.filter(\.isUsable).map { identity in
                var identity = identity
                identity.apps = identity.provenApps
                return (identity.id, identity)
            }
        )
        return rows.compactMap { row in
            guard let identity = usable[row.identity], let bytes = key.open(row.sealed, label: "push credential \(row.id)"),
                let credential = try? JSONDecoder().decode(StoredCredential.self, from: Data(bytes))
            else { return nil }
            return (row.id, identity, credential)
        }
    }

    // MARK: Changes

    private static func randomText(_ count: Int) -> String {
        Base64.url.encode((0..<count).map { _ in UInt8.random(in: .min ... .max) })
    }

    private static var implicit: AppIdentity { AppIdentity(id: AppIdentity.defaultID, proof: "", created: 0) }

    private static func unknown(_ id: String) -> Failure { Failure(description: "there is no app identity \(id): see `relayd app list`") }

    private func change(
        _ id: String,
        _ body: @escaping @Sendable (any GlobalTransaction, AppIdentity?) throws -> AppIdentity,
        then: @escaping @Sendable (any GlobalTransaction) throws -> Void = { _ in }
    ) async throws -> AdminApp {
        let time = now().count
        let (app, withdrawn) = try await store.transactGlobally { store in
            try store.put(try body(store, try store.appIdentity(id)))
            try then(store)
            guard let identity = try store.appIdentity(id) else { throw Self.unknown(id) }
            return (AdminApp(identity, try store.credentials()), try store.withdrawUnproven(of: id, time: time))
        }
        if !withdrawn.isEmpty { self.withdrawn(withdrawn) }
        return app
    }
}

extension GlobalTransaction {
    /// Removes the registrations of apps that say they are of this identity and are not proven to be. So what an endpoint hears of another
    /// one's apps is what the relay has a proof of.
    fileprivate func withdrawUnproven(of id: String, time: Int64) throws -> [AccountID: Set<EndpointID>] {
        let identity = try appIdentity(id)
        var withdrawn: [AccountID: Set<EndpointID>] = [:]
        for found in try registrations(mentioning: id) {
            guard let app = try? Unverified<AppRegistration>(decoding: found.row.registration).payload,
                app.identity?.utf8.elementsEqual(id.utf8) == true, identity?.proves(app.appID) != true
            else { continue }
            try withdraw(found.row.appID, of: found.endpoint, in: found.account, time: time)
            withdrawn[found.account, default: []].insert(found.endpoint)
        }
        return withdrawn
    }
}

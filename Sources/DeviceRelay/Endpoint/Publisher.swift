// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol

/// The apps that this endpoint hosts, and their published registrations.
final class Publisher {
    private struct App {
        var registration: RemoteSystemAppRegistration
        /// Whether the app is published to other devices.
        var isPublished: Bool
        /// The registration that was signed last.
        var signed: Signed<AppRegistration>?
        /// The registration that the relay rejected as outdated.
        var outdated: Signed<AppRegistration>?
        /// The relay's answer to the registration.
        var result: Result<Void, PublishError>?
        /// The callers that wait for the relay's answer.
        var waiting: [OneShot<Result<Void, PublishError>>] = []
    }

    private let endpoint: EndpointContext
    private let link: any ControlSending
    private let identity: OwnIdentity
    private var apps: [String: App] = [:]
    private var hasEnded = false

    init(_ endpoint: EndpointContext, link: any ControlSending, identity: OwnIdentity) {
        self.endpoint = endpoint
        self.link = link
        self.identity = identity
    }

    func app(_ id: String) -> RemoteSystemAppRegistration? { apps[id]?.registration }

    /// The id of the calling app: the given id, or the id of the only app.
    func callingApp(_ id: String?) -> String? { id ?? (apps.count == 1 ? apps.keys.first : nil) }

    /// Accepts commands for an app from now on.
    func host(_ registration: RemoteSystemAppRegistration) {
        var app = apps[registration.appID] ?? App(registration: registration, isPublished: false)
        app.registration = registration
        app.signed = nil
        app.result = nil
        apps[registration.appID] = app
    }

    /// Publishes a hosted app to the account's other devices: now or on the next connection, and again on every new connection.
    func publish(_ registration: RemoteSystemAppRegistration) {
        host(registration)
        apps[registration.appID]?.isPublished = true
        publish(registration.appID)
    }

    /// Waits until the relay has answered the registration of an app.
    func published(_ appID: String) async -> Result<Void, PublishError> {
        guard apps[appID]?.isPublished ?? false, !hasEnded else { return .failure(PublishError(.cancelled, "it is not to be published")) }
        if let result = apps[appID]?.result { return result }
        let answer = OneShot<Result<Void, PublishError>>()
        apps[appID]?.waiting.append(answer)
        if let result = await answer.wait() { return result }
        apps[appID]?.waiting.removeAll { $0 === answer }
        return .failure(PublishError(.cancelled, "the wait for the relay was cancelled"))
    }

    /// Publishes all apps on a new connection.
    func connected() { for (appID, app) in apps where app.isPublished { publish(appID) } }

    private func publish(_ appID: String) {
        guard let account = identity.account, link.isConnected || endpoint.isAnonymous, let app = apps[appID], app.isPublished else {
            return
        }
        let signed: Signed<AppRegistration>
        do {
            signed = try app.signed ?? sign(app, account: account)
        } catch {
            return ended(appID, .failure(PublishError(error)))
        }
        apps[appID]?.signed = signed
        link.request {
            .publish(.init(ref: $0, registration: Blob(signed.encoded)))
        } answer: { [self] answer in
            // A newer registration was sent in the meantime.
            guard apps[appID]?.signed == signed else { return }
            switch answer {
            case .ok, .settled: ended(appID, .success(()))
            case .connectionLost: break
            case .failure(let failure): failed(appID, failure)
            }
        }
    }

    /// Returns the last signed registration, or signs a new one if its content has changed. So a restart of the process creates no new
    /// version.
    private func sign(_ app: App, account: String) throws -> Signed<AppRegistration> {
        let registration = app.registration
        // The content is checked before it uses a version number.
        try registration.content(version: 1, account: account, endpoint: endpoint.id).validate(limits: link.limits)
        let stored = try endpoint.journal.read { try $0.registration(of: registration.appID) }
        let key = endpoint.identityKey.publicKey
        if let stored, stored != app.outdated?.encoded,
            let signed = try? Signed<AppRegistration>(verifying: stored, key: { (_) throws(RecordError) in key }),
            signed.payload == registration.content(version: signed.payload.version, account: account, endpoint: endpoint.id)
        {
            return signed
        }
        let content = registration.content(version: try endpoint.storage.nextVersion(), account: account, endpoint: endpoint.id)
        let signed = try Signed(content, key: endpoint.identityKey)
        // If this write fails, the next process signs a newer registration.
        endpoint.journal.writeLater { try $0.setRegistration(signed.encoded, of: registration.appID) }
        return signed
    }

    /// The signed registrations of the endpoint's apps, for endpoints that ask this one itself. Other processes of the endpoint publish some
    /// of them: a command publishes none, and must not make the others forget the agent's apps.
    func registrations() throws -> [[UInt8]] {
        guard let account = identity.account else { return [] }
        let key = endpoint.identityKey.publicKey
        var all = try endpoint.journal.read { try $0.registrations() }.filter { _, stored in
            let signed = try? Signed<AppRegistration>(verifying: stored, key: { (_) throws(RecordError) in key })
            return signed?.payload.account == account
        }
        for (appID, app) in apps where app.isPublished {
            // An app that is not valid is left out here, and its publication says why.
            guard let signed = try? app.signed ?? sign(app, account: account) else { continue }
            apps[appID]?.signed = signed
            all[appID] = signed.encoded
        }
        return all.sorted { $0.key < $1.key }.map(\.value)
    }

    private func failed(_ appID: String, _ failure: RelayMessage.Failure) {
        switch failure.code {
        case .tooManyRequests, .unavailable, .recordOutdated:
            // A registration is outdated if the storage was restored from a backup.
            if failure.code == .recordOutdated {
                try? endpoint.storage.raiseVersion(to: UInt64(clamping: max(0, endpoint.loop.wallTime)))
                let signed = apps[appID]?.signed
                apps[appID]?.outdated = signed
                apps[appID]?.signed = nil
            }
            link.afterOnConnection(failure.pause) { [weak self] in self?.publish(appID) }
        default: ended(appID, .failure(PublishError(failure)))
        }
    }

    private func ended(_ appID: String, _ result: Result<Void, PublishError>) {
        let waiting = apps[appID]?.waiting ?? []
        apps[appID]?.waiting = []
        apps[appID]?.result = result
        for answer in waiting { answer.settle(result) }
    }

    /// Withdraws an app. Its running handlers continue.
    func unpublish(_ appID: String) async -> Result<Void, PublishError> {
        ended(appID, .failure(PublishError(.cancelled, "it was withdrawn meanwhile")))
        apps[appID] = nil
        endpoint.journal.writeLater { try $0.removeRegistration(of: appID) }
        let answer = await withCheckedContinuation { continuation in
            link.request {
                .unpublish(.init(ref: $0, appID: appID))
            } answer: {
                continuation.resume(returning: $0)
            }
        }
        switch answer {
        case .ok, .settled: return .success(())
        case .failure(let failure): return .failure(PublishError(failure))
        case .connectionLost:
            return .failure(PublishError(.relayUnavailable, "the relay was not notified: \(endpoint.status.value.state)"))
        }
    }

    /// Replaces this endpoint's record at the relay.
    /// - Returns: Whether the relay has it.
    func update(_ record: Signed<EndpointRecord>) async -> Bool {
        await withCheckedContinuation { continuation in
            link.requestPatiently(endpoint.loop) {
                .endpointUpdate(.init(ref: $0, record: Blob(record.encoded)))
            } answer: { answer in
                switch answer {
                case .ok, .settled: continuation.resume(returning: true)
                case .failure, .connectionLost: continuation.resume(returning: false)
                }
            }
        }
    }

    /// Ends all waiting calls.
    func end() {
        hasEnded = true
        for appID in apps.keys { ended(appID, .failure(PublishError(.cancelled, "the platform was shut down"))) }
    }
}

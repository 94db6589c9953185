// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol

/// An app of this endpoint.
struct HostedApp {
    var registration: RemoteSystemAppRegistration
    /// Others are told of it.
    var isPublished: Bool
    /// As it was signed last.
    var signed: Signed<AppRegistration>?
    /// The relay has a newer one than this.
    var outdated: Signed<AppRegistration>?
    /// What the relay answered to that.
    var result: Result<Void, PublishError>?
    /// Who waits for the relay to have it.
    var waiting: [CheckedContinuation<Result<Void, PublishError>, Never>] = []
}

// The apps that this endpoint has.
extension LocalEndpoint {
    /// Takes commands for an app from now on, which makes this channel the endpoint's host.
    func host(_ registration: RemoteSystemAppRegistration) {
        var app = apps[registration.appID] ?? HostedApp(registration: registration, isPublished: false)
        app.registration = registration
        app.signed = nil
        app.result = nil
        apps[registration.appID] = app
        becomeHost()
    }

    /// Which app speaks: the one that says so, else the only one there is.
    func callingApp(_ appID: String?) -> String? { appID ?? (apps.count == 1 ? apps.keys.first : nil) }

    private func becomeHost() {
        guard channel.role != .host else { return }
        let wasStopped = if case .stopped = channel.status { true } else { false }
        let attempt = channel.attempt
        perform(channel.leave(.suspended, now: now))
        var host = ControlChannelStateMachine(role: .host, relay: relay)
        // What comes late of the old connection must not be taken for the new one's.
        host.attempt = attempt
        host.urls = channel.urls
        channel = host
        guard hasStarted else { return }
        startTarget()
        if !wasStopped { perform(channel.start(now: now)) }
    }

    /// Tells the account's other devices of an app, now or as soon as there is a connection, and again on every new one.
    func publish(_ registration: RemoteSystemAppRegistration) {
        host(registration)
        apps[registration.appID]?.isPublished = true
        publish(registration.appID)
    }

    /// Waits until the relay has what is to be published of an app.
    func published(_ appID: String) async -> Result<Void, PublishError> {
        guard apps[appID]?.isPublished ?? false, !isShutDown else { return .failure(PublishError(.cancelled, "it is not to be published")) }
        if let result = apps[appID]?.result { return result }
        return await withCheckedContinuation { apps[appID]?.waiting.append($0) }
    }

    func publishAll() {
        guard channel.role == .host else { return }
        for (appID, app) in apps where app.isPublished { publish(appID) }
    }

    private func publish(_ appID: String) {
        guard let relayAccount, case .connected = channel.status, let app = apps[appID], app.isPublished else { return }
        let signed: Signed<AppRegistration>
        do {
            signed = try app.signed ?? sign(app, account: relayAccount)
        } catch {
            return ended(appID, .failure(PublishError(error)))
        }
        apps[appID]?.signed = signed
        request {
            .publish(.init(ref: $0, registration: Blob(signed.encoded)))
        } answer: { endpoint, answer in
            // A newer one is on its way.
            guard endpoint.apps[appID]?.signed == signed else { return }
            switch answer {
            case .ok, .settled: endpoint.ended(appID, .success(()))
            case .connectionLost: break
            case .failure(let failure): endpoint.publishFailed(appID, failure)
            }
        }
    }

    /// The registration that was signed last, unless something about it has changed: a new process is no news to anybody.
    private func sign(_ app: HostedApp, account: String) throws -> Signed<AppRegistration> {
        let registration = app.registration
        // Checked before a version is spent on it.
        try registration.content(version: 1, account: account, endpoint: id).validate(limits: channel.limits)
        let stored = try journal.read { try $0.registration(of: registration.appID) }
        if let stored, stored != app.outdated?.encoded,
            let signed = try? Signed<AppRegistration>(verifying: stored, key: { (_) throws(RecordError) in identityKey.publicKey }),
            signed.payload == registration.content(version: signed.payload.version, account: account, endpoint: id)
        {
            return signed
        }
        let content = registration.content(version: try storage.nextVersion(), account: account, endpoint: id)
        let signed = try Signed(content, key: identityKey)
        // If that fails, the next process signs a newer one.
        journal.write {
            try $0.setRegistration(signed.encoded, of: registration.appID)
        } completion: { _ in
        }
        return signed
    }

    private func publishFailed(_ appID: String, _ failure: RelayMessage.Failure) {
        let attempt = channel.attempt
        switch failure.code {
        case .tooManyRequests, .unavailable, .recordOutdated:
            // Outdated is what a storage that was restored from a copy signs.
            if failure.code == .recordOutdated {
                try? storage.raiseVersion(to: UInt64(clamping: max(0, wallTime)))
                apps[appID]?.outdated = apps[appID]?.signed
                apps[appID]?.signed = nil
            }
            _ = after(max(failure.retryAfter?.count ?? 1_000, 100)) { if attempt == $0.channel.attempt { $0.publish(appID) } }
        default: ended(appID, .failure(PublishError(failure)))
        }
    }

    private func ended(_ appID: String, _ result: Result<Void, PublishError>) {
        let waiting = apps[appID]?.waiting ?? []
        apps[appID]?.waiting = []
        apps[appID]?.result = result
        for continuation in waiting { continuation.resume(returning: result) }
    }

    /// Withdraws an app. What came for it before is still handled as it was.
    func unpublish(_ appID: String) async -> Result<Void, PublishError> {
        ended(appID, .failure(PublishError(.cancelled, "it was withdrawn meanwhile")))
        apps[appID] = nil
        journal.write {
            try $0.removeRegistration(of: appID)
        } completion: { _ in
        }
        let answer = await withCheckedContinuation { continuation in
            request {
                .unpublish(.init(ref: $0, appID: appID))
            } answer: {
                continuation.resume(returning: $1)
            }
        }
        switch answer {
        case .ok, .settled: return .success(())
        case .failure(let failure): return .failure(PublishError(failure))
        case .connectionLost: return .failure(PublishError(.relayUnavailable, "the relay was not told: \(link.value.state)"))
        }
    }

    /// Nobody waits any more.
    func endPublishing() {
        for appID in apps.keys { ended(appID, .failure(PublishError(.cancelled, "the platform was shut down"))) }
    }
}

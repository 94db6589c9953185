// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import RelayProtocol

/// The interface for the rest of the SDK.
extension LocalEndpoint {
    nonisolated var id: EndpointID { endpoint.id }
    nonisolated var account: ConnectedDevicesAccount { endpoint.account }
    nonisolated var storage: AccountStorage { endpoint.storage }
    nonisolated var journal: Journal { endpoint.journal }
    nonisolated var identityKey: any IdentityKey { endpoint.identityKey }
    nonisolated var credentials: EndpointCredentials { endpoint.credentials }
    nonisolated var accessTokens: any AccessTokenProvider { endpoint.accessTokens }
    nonisolated var logger: Logger { endpoint.logger }
    nonisolated var loop: any EventLoop { endpoint.loop.eventLoop }
    nonisolated var link: CurrentValue<Link> { endpoint.status }

    /// Accepts commands for an app from now on. This gives the endpoint's control channel the host role.
    func host(_ registration: RemoteSystemAppRegistration) {
        wire()
        publisher.host(registration.serving(shares))
        guard !control.isHost else { return }
        let wasActive = control.becomeHost()
        guard life.hasStarted else { return }
        if life.isWanted { nearby?.start(isHost: true) }
        inbox.start()
        if wasActive { control.start() }
    }

    func publish(_ registration: RemoteSystemAppRegistration) {
        host(registration)
        publisher.publish(registration.serving(shares))
    }

    func published(_ appID: String) async -> Result<Void, PublishError> { await publisher.published(appID) }

    func unpublish(_ appID: String) async -> Result<Void, PublishError> { await publisher.unpublish(appID) }

    /// Stores a command, which then proceeds independently of the caller.
    func submit(
        _ body: CommandBody,
        to target: ResolvedTarget,
        life: Duration,
        senderApp: String?,
        key: SubmissionKey?
    ) async throws(CommandFailure) -> RemoteCommand {
        guard !self.life.isShutDown else { throw .shutDown }
        let app = publisher.callingApp(senderApp)
        let (row, state) = try await outbox.submit(body, to: target, life: life, senderApp: app, key: key)
        return RemoteCommand(row, state, self)
    }

    func submitted(_ key: SubmissionKey) async throws(CommandFailure) -> RemoteCommand? {
        guard let (row, state) = try await outbox.submitted(key) else { return nil }
        return RemoteCommand(row, state, self)
    }

    nonisolated func content(of id: CommandID) async throws -> CommandBody? {
        guard let stored = try await journal.write({ try $0.sentContent(id) }) else { return nil }
        let kind = try SealedCommand(decoding: stored.blob).header.kind
        return try CommandBody(decoding: stored.body, kind: kind, limits: Limits())
    }

    func cancel(_ id: CommandID) async throws(CommandFailure) { try await outbox.cancel(id) }

    /// The stored commands: all open ones, and the latest ended ones.
    func commands() async throws -> [RemoteCommand] { try await outbox.commands().map { RemoteCommand($0.0, $0.1, self) } }

    /// One stored command; `nil` if there is none with this id.
    func command(_ id: CommandID) async throws -> RemoteCommand? {
        try await outbox.command(id).map { RemoteCommand($0.0, $0.1, self) }
    }

    func reply(to id: CommandID, _ final: CommandFinal) async throws -> ValueSet? { try await outbox.reply(to: id, final) }

    func open(
        _ info: AppServiceInfo,
        on target: ResolvedTarget,
        from appID: String?,
        timeout: Duration
    ) async throws(AppServiceError) -> AppServiceConnection {
        try await sessions.open(info, on: target, from: appID, timeout: timeout)
    }

    func openBulk(_ token: BulkToken, on target: ResolvedTarget, timeout: Duration) async throws(AppServiceError) -> BulkStream {
        try await sessions.openBulk(token, to: target.endpoint, timeout: timeout)
    }

    /// Shows the stored devices, because the relay has not listed them yet.
    func showStored() { peers.take(.relaySilent(since: Milliseconds(clamping: endpoint.loop.wallTime))) }

    /// Whether one of these endpoints is on this network. It looks for some seconds.
    func isNearby(_ peers: Set<EndpointID>) async -> Bool { await nearby?.search(for: peers) ?? false }

    /// Looks for devices on this network for a moment.
    func searchNearby() async { await nearby?.search() }

    /// Connects to the known endpoints on this network, so that it is known what they take now.
    func greetNearby() async {
        guard let nearby else { return }
        await nearby.search()
        for peer in nearby.present.sorted().prefix(Self.maximumGreeted) {
            _ = try? await sessions.directSession(with: peer, until: .now + Self.greetingPatience)
        }
    }

    private static let maximumGreeted = 16
    private static let greetingPatience = Duration.seconds(3)

    /// What is seen on this network; `nil` if it is not used.
    func lookAround() async -> NearbyView? { await nearby?.look() }

    /// Begins to watch where known endpoints are seen; `nil` if the network is not used.
    func watchNearby() -> CurrentValue<[NearbySighting]>? {
        nearby?.watch()
        return nearby?.sightings
    }

    var knownRecords: [EndpointRecord] { peers.knownRecords }
    var knownEndpoints: [KnownEndpoint] { peers.knownEndpoints }

    func invite() async throws(AccountError) -> JoinLink { try await peers.invite() }

    func linkIdentity(signingInBy provider: any AccessTokenProvider) async throws(AccountError) {
        // The user is not asked to sign in if the link would be refused.
        guard control.isConnected else { throw AccountError(.networkNotAvailable, message: "the relay is not connected; try again later") }
        // The login is not kept, so it needs no refresh token.
        let request = endpoint.tokenRequest(AccessTokenScope.all.subtracting([.offlineAccess]))
        let token: AccessToken
        do throws(AccessTokenError) {
            token = try await appCode { () throws(AccessTokenError) in
                guard let provider = provider as? any FreshSigningIn else { return try await provider.accessToken(for: request) }
                return try await provider.freshToken(for: request)
            }
        } catch {
            throw AccountError(error)
        }
        let answer = await withCheckedContinuation { continuation in
            control.requestPatiently(endpoint.loop) {
                .identityLink(.init(ref: $0, token: Secret(token.value)))
            } answer: {
                continuation.resume(returning: $0)
            }
        }
        switch answer {
        case .ok, .settled: return
        case .failure(let failure): throw AccountError(ofLinking: failure)
        case .connectionLost: throw AccountError(.networkNotAvailable, message: "the relay did not answer; try again")
        }
    }

    /// - Parameter system: The device that the person saw; `nil` for any.
    func confirm(_ peer: EndpointID, on system: RemoteSystem.ID?) async -> Bool {
        guard system == nil || peers.record(of: peer).map({ RemoteSystem.ID($0.systemID) }) == system else { return false }
        return await peers.confirm(peer)
    }

    /// Whether it is, or has been, in an account of the relay.
    var isInAccount: Bool { identity.account != nil }

    func revoke(_ peer: EndpointID) async throws -> ControlAnswer {
        // Before the relay has stated the account, no other endpoint is known. A pairing is ended by `unpair`.
        guard let account = identity.account, !endpoint.isAnonymous else { return .connectionLost }
        return try await peers.revoke(peer, account: account)
    }

    /// Signs a record with the current name of the device, and sends it.
    /// - Returns: Whether the relay has it. Otherwise it gets it on the next connection.
    func updateRecord() async -> Bool {
        guard let record = try? identity.currentRecord() else { return false }
        return await publisher.update(record)
    }

    /// Removes all devices from the directory, because the account was removed.
    func forgetDevices() { peers.removeAll() }
}

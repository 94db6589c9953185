// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import NIOCore
import RelayProtocol
import Testing

/// One endpoint of a pair: its keys, and the services it offers.
struct SessionSide: Sendable {
    let key: any IdentityKey
    let memory: SessionMemory
    let bulk = BulkStreams()
    let admit: SessionAdmitter
    let connector: SessionConnector

    var id: EndpointID { EndpointID(key.publicKey) }

    /// Returns when so many bytes are free. If they are never released, the test's time limit ends it.
    func hasFree(_ bytes: Int) async {
        while memory.freeBytes != bytes { await Task.yield() }
    }

    init(key: any IdentityKey = P256SigningKey(), limits: Limits = Limits(), canMove: Bool = false, services: [AppService] = []) throws {
        self.key = key
        memory = SessionMemory(limits: limits)
        admit = { peer, opening in
            let caller = AppServiceCaller(
                accountID: "me",
                deviceName: "device",
                systemID: RemoteSystem.ID(SystemID(digest: peer.digest)),
                endpoint: peer,
                appID: opening.callerAppID.isEmpty ? nil : opening.callerAppID,
                isNew: false
            )
            return SessionAdmission(opening.appID == "com.example.app" ? services : nil, for: opening, from: caller)
        }
        connector = SessionConnector(
            certificate: try EndpointCertificate(key),
            limits: limits,
            memory: memory,
            bulk: bulk,
            canMove: canMove,
            admit: admit
        )
    }
}

extension SessionConnector {
    /// Accepts what must be a session.
    func acceptSession(
        over transport: some PeerTransport,
        timeout: Duration = .seconds(15),
        isKnown: @escaping @Sendable (EndpointID) async -> Bool
    ) async throws(AppServiceError) -> PeerSession {
        guard case .session(let session) = try await accept(over: transport, timeout: timeout, isKnown: isKnown) else {
            throw AppServiceError(.failure, message: "a bulk stream was opened in place of a session")
        }
        return session
    }
}

/// Two endpoints with a relay between them, and a session.
struct SessionWorld: Sendable {
    let relay: TestTunnelRelay
    let opener: SessionSide
    let target: SessionSide
    let session: PeerSession
    let targetSession: PeerSession

    static let info = AppServiceInfo(name: "test", appID: "com.example.app")

    static func with(
        limits: Limits = Limits(),
        targetLimits: Limits? = nil,
        ways: (opener: [TestTunnelRelay.Way], target: [TestTunnelRelay.Way]) = ([.socket], [.socket]),
        services: [AppService],
        _ body: (SessionWorld) async throws -> Void
    ) async throws {
        let relay = try await TestTunnelRelay()
        let opener = try SessionSide(limits: limits, services: services)
        let target = try SessionSide(limits: targetLimits ?? limits, services: services)
        do {
            let tunnel = relay.tunnel(ways)
            async let accepted = target.connector.acceptSession(over: tunnel.target) { $0 == opener.id }
            let session = try await opener.connector.open(to: target.id, over: tunnel.opener)
            let world = SessionWorld(relay: relay, opener: opener, target: target, session: session, targetSession: try await accepted)
            try await body(world)
            await session.shutDown()
            await world.targetSession.shutDown()
        } catch {
            await relay.stop()
            throw error
        }
        await relay.stop()
    }

    func open(_ name: String = "test", timeout: Duration = .seconds(30)) async throws(AppServiceError) -> AppServiceConnection {
        try await session.open(AppServiceInfo(name: name, appID: "com.example.app"), from: "com.example.remote", timeout: timeout)
    }
}

extension AppService {
    /// Answers with the request's message.
    static func echo(_ name: String = "test") -> AppService {
        AppService(name) { connection, _ in try await connection.respond(concurrently: 64) { $0.message } }
    }
}

/// The code of the error that an operation throws.
func code<Value>(
    of operation: () async throws(AppServiceError) -> Value,
    sourceLocation: SourceLocation = #_sourceLocation
) async -> AppServiceError.Code? {
    do throws(AppServiceError) {
        _ = try await operation()
        Issue.record("it succeeded", sourceLocation: sourceLocation)
        return nil
    } catch {
        return error.code
    }
}

/// Something that happens once, for a test to wait for.
final class Signal: Sendable {
    private let shot = OneShot<Bool>()

    func happen() { shot.settle(true) }
    var hasHappened: Bool { shot.value != nil }
    func wait() async { _ = await shot.wait() }
}

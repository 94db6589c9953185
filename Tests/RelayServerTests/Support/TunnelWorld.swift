// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import RelayProtocol
import Synchronization

@testable import RelayServer

/// A real relay with its real core, and endpoints that open tunnels on it. The core's clock is set by hand.
final class TunnelWorld: Sendable {
    let relay: TestRelay
    let core: RelayCore
    let clock: CoreWorld.TestClock
    private let controls = Mutex<[TestWebSocket]>([])

    private init(relay: TestRelay, core: RelayCore, clock: CoreWorld.TestClock) {
        self.relay = relay
        self.core = core
        self.clock = clock
    }

    /// - Parameter leases: Those of a node of several; `nil` if the relay has one node.
    static func with<Result: Sendable>(
        leases: (any AccountLeases)? = nil,
        configure: (inout RelayConfiguration) -> Void = { _ in },
        _ work: @Sendable (TunnelWorld) async throws -> Result
    ) async throws -> Result {
        let clock = CoreWorld.TestClock()
        let made = Mutex<RelayCore?>(nil)
        let store = try SQLiteStore()
        var limits = RelayConfiguration(dataDirectory: "").limits
        return try await TestRelay.with(
            realCore: { key, metrics in
                let core = RelayCore(
                    store: store,
                    leases: leases,
                    relay: key.id,
                    limits: limits,
                    now: { Milliseconds(clamping: clock.now) },
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                    tunnelMetrics: TunnelMetrics(factory: metrics)
                )
                made.withLock { $0 = core }
                return core
            },
            configure: { configuration in
                configure(&configuration)
                limits = configuration.limits
            },
            { relay in
                guard let core = made.withLock({ $0 }) else { throw TestError("no core") }
                let world = TunnelWorld(relay: relay, core: core, clock: clock)
                let result = try await work(world)
                // A relay that stops waits for those who do not close.
                for control in world.controls.withLock({ $0 }) { await control.socket.close() }
                return result
            }
        )
    }

    /// An endpoint's control channel.
    struct Party: Sendable {
        let endpoint: TransportTestEndpoint
        let control: TestWebSocket

        var id: EndpointID { endpoint.id }

        func ask(_ target: EndpointID, timeout: Milliseconds = 30_000) async throws -> RelayMessage {
            try await control.send(.tunnelOpen(.init(ref: .first, target: target, timeout: timeout)))
            return try await control.message()
        }

        /// Opens a tunnel that is waited for, and returns its id.
        func open(_ target: EndpointID, timeout: Milliseconds = 30_000) async throws -> TunnelID {
            let answer = try await ask(target, timeout: timeout)
            guard case .ok(let ok) = answer, let tunnel = ok.result?.tunnel else { throw TestError("not opened: \(answer)") }
            return tunnel
        }

        func ready() async throws -> TunnelEntrance {
            let message = try await control.message()
            guard case .tunnelReady(let ready) = message else { throw TestError("not ready: \(message)") }
            return ready.entrance
        }

        func offer() async throws -> RelayMessage.TunnelOffer {
            let message = try await control.message()
            guard case .tunnelOffer(let offer) = message else { throw TestError("no offer: \(message)") }
            return offer
        }

        func failed() async throws -> RelayMessage.TunnelFailed {
            let message = try await control.message()
            guard case .tunnelFailed(let failed) = message else { throw TestError("not failed: \(message)") }
            return failed
        }

        func disconnect() async { await control.socket.close() }
    }

    func connect(
        _ endpoint: TransportTestEndpoint = TransportTestEndpoint(),
        token: String = FixedTokens.good,
        role: EndpointMessage.Hello.Role = .host
    ) async throws -> Party {
        var account = "unknown"
        for _ in 0..<2 {
            let control = try await TestWebSocket.open(relay)
            controls.withLock { $0.append(control) }
            let challenge = try await control.challenge()
            let nonce = challenge.nonce.bytes
            try await control.send(
                endpoint.hello(nonce: nonce, relay: challenge.relay, origin: relay.origin, token: token, role: role, account: account)
            )
            switch try await control.message(isWelcome: false) {
            case .welcome: return Party(endpoint: endpoint, control: control)
            case .rejected(let rejected) where rejected.code == .wrongAccount:
                account = rejected.account ?? ""
                await control.socket.close()
            case let message: throw TestError("\(message)")
            }
        }
        throw TestError("the account was not taken")
    }

    func revocation(of endpoint: EndpointID, by party: Party) async throws -> Blob<BlobKinds.Revocation> {
        guard let row = try await core.store.transact({ try $0.endpoint(party.id) }) else { throw TestError("no such endpoint") }
        let revocation = Revocation(of: endpoint, by: party.id, account: row.account.rawValue, time: 1)
        return Blob(try Signed(revocation, key: party.endpoint.identityKey).encoded)
    }

    /// Opens a tunnel from one to the other.
    func entrances(_ opener: Party, _ target: Party) async throws -> (opener: TunnelEntrance, target: TunnelEntrance) {
        _ = try await opener.open(target.id)
        return (try await opener.ready(), try await target.offer().entrance)
    }

    /// A pair of connections through a new tunnel.
    func pair(
        _ opener: Party,
        _ target: Party,
        _ one: TunnelClient.Transport = .tcp,
        _ other: TunnelClient.Transport = .tcp
    ) async throws -> (TunnelClient, TunnelClient) {
        let entrances = try await entrances(opener, target)
        let first = try await TunnelClient(one, entrances.opener, at: relay)
        let second = try await TunnelClient(other, entrances.target, at: relay)
        guard await first.status() == TunnelClient.paired[one], await second.status() == TunnelClient.paired[other] else {
            throw TestError("not paired")
        }
        return (first, second)
    }

    /// What was read from one side and not written to the other, over all tunnels.
    func bytesInFlight() async throws -> Int {
        var total = 0
        for connection in core.tunnels.entrants { total += try await connection.bytesInFlight() }
        return total
    }

    var isEmpty: Bool {
        core.accounts.allSatisfy { $0.tunnels.tunnels.isEmpty && $0.tunnels.pending.isEmpty } && core.tunnels.accounts.isEmpty
            && core.entrantCount == 0
    }

    func pass(_ milliseconds: Int64) {
        clock.pass(milliseconds)
        core.handleDeadlines()
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Logging
import NIOCore
import RelayProtocol

/// What every control channel of a relay works with.
package struct ControlServices: Sendable {
    package var core: any RelayCoreProtocol
    package var tokens: any TokenVerifying
    package let settings: RelayChannelStateMachine.Settings
    /// What everybody is told who gets in, as a frame: after a restart of the relay thousands come at once.
    let welcome: ByteBuffer?
    package var origins: OwnOrigins
    package var rates: EndpointRates
    package var metrics: TransportMetrics
    package var logger: Logger
    package var clock: RelayClock
    /// How much may wait for an endpoint to read it.
    package var outboundBytes: Int

    package init(
        core: any RelayCoreProtocol,
        tokens: any TokenVerifying,
        settings: RelayChannelStateMachine.Settings,
        origins: OwnOrigins,
        metrics: TransportMetrics,
        logger: Logger,
        clock: RelayClock = .system,
        outboundBytes: Int
    ) {
        self.core = core
        self.tokens = tokens
        self.settings = settings
        self.welcome = try? settings.welcome.encode(limits: settings.limits)
        self.origins = origins
        self.rates = EndpointRates(limits: settings.limits)
        self.metrics = metrics
        self.logger = logger
        self.clock = clock
        self.outboundBytes = outboundBytes
    }

    /// Checks a token. The logins of an endpoint that was revoked have ended, or its token's time is over, but what it has to know is that it
    /// was revoked.
    func verify(
        token: String,
        endpointKey: SigningPublicKey,
        completion: @escaping @Sendable (Result<AcceptedToken, TokenRefusal>) -> Void
    ) {
        tokens.verify(token: token, endpointKey: endpointKey) { [core, clock] result in
            let isOver =
                switch result {
                case .success(let token): token.expires <= clock.now().time
                case .failure(let refusal): [.tokenRevoked, .tokenExpired].contains(refusal.code)
                }
            guard isOver else { return completion(result) }
            core.isRevoked(EndpointID(endpointKey)) { isRevoked in
                completion(isRevoked ? .failure(.endpointRevoked) : result)
            }
        }
    }

    /// The machine of a new channel, by the address of its local end and the client's.
    func makeStateMachine(on address: SocketAddress?, from client: IPAddress?) -> RelayChannelStateMachine {
        var generator = SystemRandomNumberGenerator()
        // By words: each is a call of the system.
        let nonce = (0..<4).flatMap { _ in withUnsafeBytes(of: generator.next()) { [UInt8]($0) } }
        return RelayChannelStateMachine(
            settings: settings,
            nonce: nonce,
            address: client?.description,
            jitter: .random(in: 0.9...1.1, using: &generator),
            isOwnOrigin: { [origins] in origins.allows(origin: $0, on: address) },
            take: { [rates] limit, endpoint, uptime in rates.take(limit, of: endpoint, uptime: uptime) }
        )
    }
}

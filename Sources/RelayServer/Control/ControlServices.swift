// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Logging
package import NIOCore
package import RelayLog
import RelayProtocol

/// The services that all control channels of a relay share.
package struct ControlServices: Sendable {
    package var core: any RelayCoreProtocol
    package var tokens: any TokenVerifying
    package let settings: RelayChannelStateMachine.Settings
    /// The encoded `welcome` of an account without a name and quotas, the same for all channels: after a restart of the relay thousands connect at
    /// once.
    private let welcome: ByteBuffer?
    package var origins: OwnOrigins
    package var rates: EndpointRates
    package var metrics: TransportMetrics
    package var logger: Logger
    package var events: @Sendable (RelayEvent) -> Void
    package var clock: RelayClock
    /// The maximum number of bytes that wait for an endpoint to read them.
    package var outboundBytes: Int

    package init(
        core: any RelayCoreProtocol,
        tokens: any TokenVerifying,
        settings: RelayChannelStateMachine.Settings,
        origins: OwnOrigins,
        rates: EndpointRates,
        metrics: TransportMetrics,
        logger: Logger,
        events: @escaping @Sendable (RelayEvent) -> Void = { _ in },
        clock: RelayClock = .system,
        outboundBytes: Int
    ) {
        self.core = core
        self.tokens = tokens
        self.settings = settings
        self.welcome = try? settings.welcome(accountName: nil).encode(limits: settings.limits)
        self.origins = origins
        self.rates = rates
        self.metrics = metrics
        self.logger = logger
        self.events = events
        self.clock = clock
        self.outboundBytes = outboundBytes
    }

    /// Checks a token. For a revoked endpoint the answer is the revocation, although its logins have ended or its token has expired.
    func verify(
        token: String,
        endpointKey: SigningPublicKey,
        address: String,
        completion: @escaping @Sendable (Result<AcceptedToken, TokenRejection>) -> Void
    ) {
        tokens.verify(token: token, endpointKey: endpointKey, address: address) { [core, clock] result in
            let isOver =
                switch result {
                case .success(let token): token.expires <= clock.now().time
                case .failure(let rejection): [.tokenRevoked, .tokenExpired].contains(rejection.code)
                }
            guard isOver else { return completion(result) }
            core.isRevoked(EndpointID(endpointKey)) { isRevoked in
                completion(isRevoked ? .failure(.endpointRevoked) : result)
            }
        }
    }

    /// A `welcome` as it is sent. `nil` if it has to be encoded, or cannot be.
    func frame(of message: RelayMessage.Welcome) -> ByteBuffer? {
        guard message.limits == settings.limits else { return nil }
        guard let name = message.accountName else { return welcome }
        return welcome.map { Self.frame(adding: name, to: $0) }
    }

    /// Adds the account's name as the last member of a `welcome` without one.
    package static func frame(adding name: String, to welcome: ByteBuffer) -> ByteBuffer {
        var frame = welcome
        var member = JSONWriter()
        member.object { $0.member("accountName", name) }
        frame.moveWriterIndex(to: frame.writerIndex - 1)
        frame.writeString(",")
        frame.writeBytes(member.bytes.dropFirst())
        return frame
    }

    /// Creates the state machine of a new channel, from its local address and the client's address.
    func makeStateMachine(on address: SocketAddress?, from client: IPAddress?) -> RelayChannelStateMachine {
        var generator = SystemRandomNumberGenerator()
        // Four words rather than 32 bytes: each value costs a system call.
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

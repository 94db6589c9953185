// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import RelayProtocol

/// The sessions that other endpoints open to this one.
extension SessionPool {
    /// The direct connections of one peer.
    private static let knockRate = EventRate(120, per: 60_000)

    /// Takes a direct connection of an endpoint that has knocked with the right key.
    func knocked(_ peer: EndpointID, over transport: KnockedTransport) {
        let logger = endpoint.logger
        guard life == .active, !peers.isRefused(peer), peers.isConfirmed(peer), let connector = try? connector(),
            rejection(of: peer) == nil,
            // A greeting reads the journal and verifies signatures.
            knocks.take(peer, Self.knockRate, now: Milliseconds(clamping: loop.now)) == nil
        else { return transport.channel.close(promise: nil) }
        accepting.append(peer)
        loop.spawn(self) { pool in
            do throws(AppServiceError) {
                let greeting = try pool.greetings.greeting(with: peer)
                // TLS proves the endpoint whose key has knocked.
                let link = try await pool.greetings.admitting(greeting, connector).accept(over: transport, timeout: Self.directPatience) {
                    $0 == peer
                }
                switch link {
                case .session(let session):
                    try await pool.greetings.exchange(greeting, over: session, since: session.moves)
                    try await pool.add(session)
                case .moved(let session): await pool.greet(greeting, overMoved: session)
                // Its session has had a greeting.
                case .bulk: break
                }
            } catch  where error.code != .cancelled {
                logger.info("a direct session could not be opened", metadata: ["peer": "\(peer.label)", "code": "\(error.code)"])
            } catch {}
            pool.acceptEnded(peer)
        }
    }

    /// Accepts or declines a tunnel that another endpoint opens to this one.
    func offered(_ offer: RelayMessage.TunnelOffer) {
        let decline = EndpointMessage.tunnelDecline(.init(tunnel: offer.entrance.tunnel))
        guard life == .active, let connector = try? connector(),
            let opener = try? Signed<EndpointRecord>(verifying: offer.opener.record.bytes).payload.endpointID,
            let peer = try? peers.introduce(offer.opener, as: opener), opener != endpoint.id
        else { return link.say(decline) }
        let logger = endpoint.logger
        if let rejection = rejection(of: opener) {
            logger.info("a session was declined", metadata: ["peer": "\(opener.label)", "reason": "\(rejection.rawValue)"])
            return link.say(decline)
        }
        admissions.introduce(peer.record, of: opener)
        accepting.append(opener)
        let transport = tunnels.transport(offer.entrance, on: loop.eventLoop, openedBy: opener)
        loop.spawn(self) { pool in
            do throws(AppServiceError) {
                // TLS proves the peer's identity. The relay's offer only states the expected peer.
                if case .session(let session) = try await connector.accept(over: transport, isKnown: { $0 == opener }) {
                    try await pool.add(session)
                }
            } catch {
                logger.info("a session could not be opened", metadata: ["peer": "\(opener.label)", "code": "\(error.code)"])
            }
            pool.acceptEnded(opener)
        }
    }

    private func acceptEnded(_ peer: EndpointID) {
        if let index = accepting.firstIndex(of: peer) { accepting.remove(at: index) }
        // The records are kept only while their peers have sessions.
        admissions.keep(only: Set(sessions.sessions.map(\.peer) + accepting))
    }
}

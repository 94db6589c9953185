// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation
import NIOCore
import NIOHTTP1
package import RelayProtocol

/// Queries a relay without authentication, for diagnosis.
package struct RelayProbe: Sendable {
    package struct Answer: Sendable {
        package var status: Int
        /// The relay's clock: milliseconds since 1970, in whole seconds.
        package var date: Int64?
        /// The type of the body without parameters, in lower case, such as `application/problem+json`.
        package var mediaType: String?
        package var body: [UInt8]

        package init(status: Int, date: Int64?, mediaType: String?, body: [UInt8]) {
            self.status = status
            self.date = date
            self.mediaType = mediaType
            self.body = body
        }

        /// Why the relay itself is not ready, in its own words (RFC 9457). A proxy in front of it, or another server, does not say so.
        package var problem: String? {
            struct Problem: Decodable { var detail: String }
            guard status == 503, mediaType == "application/problem+json",
                let problem = try? JSONDecoder().decode(Problem.self, from: Data(body)), !problem.detail.isEmpty
            else { return nil }
            return DisplayText.sanitized(String(problem.detail.prefix(200)))
        }
    }

    package enum TunnelWay: Hashable, Sendable {
        case port(Int)
        case webSocket
    }

    private let address: RelayAddress
    private let trust: RelayTrust

    /// - Parameter relayID: The expected relay; `nil` permits any.
    package init(
        _ relay: URL,
        relayID: RelayID?,
        allowsPlainHTTP: Bool,
        authorities: TrustRoots = .system
    ) throws(ConnectionError) {
        do throws(RelayAddress.Problem) {
            address = try RelayAddress(relay, allowsPlaintext: allowsPlainHTTP)
        } catch {
            throw ConnectionError(.notARelay, "the relay's URL cannot be used; join again")
        }
        trust = RelayTrust(relay: relayID, authorities: authorities)
    }

    /// - Parameter path: The path below the relay's URL.
    package func get(_ path: String) async throws(ConnectionError) -> Answer {
        do throws(RequestFailure) {
            let answer = try await HTTPRequestClient(timeout: 10_000).send(
                HTTPRequest(.GET, address.basePath + path),
                to: address,
                trust: trust
            )
            let type = answer.headers.first(name: "Content-Type")?.utf8.prefix { $0 != UInt8(ascii: ";") && $0 != UInt8(ascii: " ") }
            return Answer(
                status: answer.status,
                date: answer.date,
                mediaType: type.map { String(decoding: $0, as: UTF8.self).lowercased() },
                body: answer.body
            )
        } catch {
            throw ConnectionError(error)
        }
    }

    /// The relay id that the server states.
    package func identity() async throws(ConnectionError) -> RelayID {
        do throws(RequestFailure) {
            return try await ControlChannelClient().identify(address, trust: trust, timeout: 10_000)
        } catch {
            throw ConnectionError(error)
        }
    }

    private struct Ports: Decodable {
        var ports: [Int]
    }

    /// The ports that the relay names for tunnels over plain TCP, at most 8, and those of them that can be reached from here.
    package func tunnelPorts() async -> (named: [Int], open: [Int]) {
        guard let answer = try? await get("/v1/tunnels"), answer.status == 200,
            let ports = try? JSONDecoder().decode(Ports.self, from: Data(answer.body)).ports.prefix(8)
        else { return ([], []) }
        var open: [Int] = []
        for port in ports {
            if (try? await test(.port(port))) != nil { open.append(port) }
        }
        return (Array(ports), open)
    }

    /// Tests whether a kind of tunnel entrance can be reached, with the id of a tunnel that does not exist.
    package func test(_ way: TunnelWay) async throws(ConnectionError) {
        var random = SystemRandomNumberGenerator()
        let id = TunnelID(using: &random)
        let url =
            switch way {
            case .port(let port): "tcp://:\(port)"
            case .webSocket: "wss:///v1/tunnels/\(id)"
            }
        let token = randomBytes(TunnelPreface.tokenByteCount, using: &random)
        let entrance = TunnelEntrance(tunnel: id, token: Secret(Blob(token)), urls: [url])
        let transport = TunnelTransport(entrance, relay: address, trust: trust)
        do throws(PeerTransportError) {
            try await transport.connect(timeout: .seconds(5)) { _ in }.close(promise: nil)
        } catch {
            switch error {
            // The relay rejects the tunnel, so the entrance works.
            case .refused: return
            case .unreachable(let failure): throw ConnectionError(failure)
            case .timedOut: throw ConnectionError(DialFailure.timedOut)
            case .closed, .noCandidate, .foreignHost, .notReached, .closedEarly, .notProved:
                throw ConnectionError(.notARelay, "the server there is not a relay's tunnel")
            case .cancelled: throw ConnectionError(.suspended, "it was interrupted")
            }
        }
    }
}

extension ConnectionError {
    fileprivate init(_ failure: RequestFailure) {
        switch failure {
        case .failed(let failure): self.init(failure)
        case .cancelled: self.init(.suspended, "it was interrupted")
        }
    }
}

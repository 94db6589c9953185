// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import HTTPTypes
package import NIOHTTP1
package import RelayProtocol

/// The decision about a request.
package enum UpgradeDecision: Hashable, Sendable {
    /// Not a WebSocket request: the HTTP server handles it.
    case ordinary
    /// A control channel; `accept` is the answer to the client's key (RFC 6455 §4.2.2).
    case controlChannel(accept: String)
    /// One side of a tunnel.
    case tunnel(accept: String, TunnelID, token: Secret<[UInt8]>)
    /// A WebSocket request that is rejected.
    case refused(ProblemDetails)

    package static let controlPath = "/v1/connect"
    package static let controlSubprotocol = "device-relay.v1"
    package static let tunnelPath = "/v1/tunnels/"
    package static let tunnelSubprotocol = "device-relay.tunnel.v1"

    /// - Parameters:
    ///   - isOwnHost: whether the `Host` is the relay's.
    ///   - isOwnOrigin: whether a page of this origin may connect.
    package init(head: HTTPRequestHead, isOwnHost: (String) -> Bool, isOwnOrigin: (String) -> Bool) {
        guard Self.isWanted(by: head) else {
            self = .ordinary
            return
        }
        do throws(ProblemDetails) {
            try Self.checkHost(head, isOwnHost: isOwnHost)
            let path = head.uri.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false).first.map(String.init) ?? head.uri
            if path == Self.controlPath {
                self = .controlChannel(accept: try Self.accept(head, for: Self.controlSubprotocol, isOwnOrigin: isOwnOrigin))
            } else if path.hasPrefix(Self.tunnelPath) {
                let accept = try Self.accept(head, for: Self.tunnelSubprotocol, isOwnOrigin: isOwnOrigin)
                let token = try Self.tunnelToken(head)
                guard let tunnel = TunnelID(String(path.dropFirst(Self.tunnelPath.count))) else { throw .noTunnel }
                self = .tunnel(accept: accept, tunnel, token: token)
            } else {
                throw ProblemDetails(.notFound, "There is no WebSocket here; the control channel is at \(Self.controlPath).")
            }
        } catch {
            self = .refused(error)
        }
    }

    /// Whether a request asks for a WebSocket.
    static func isWanted(by head: HTTPRequestHead) -> Bool {
        head.headers[canonicalForm: "upgrade"].contains { $0.lowercased() == "websocket" }
    }

    private static func checkHost(_ head: HTTPRequestHead, isOwnHost: (String) -> Bool) throws(ProblemDetails) {
        let hosts = head.headers["host"]
        guard hosts.count == 1, let host = hosts.first else { throw .oneHost }
        guard isOwnHost(host) else { throw .wrongHost }
    }

    private static func tunnelToken(_ head: HTTPRequestHead) throws(ProblemDetails) -> Secret<[UInt8]> {
        let fields = head.headers["authorization"]
        let parts = fields.first?.split(separator: " ") ?? []
        guard fields.count == 1, parts.count == 2, parts[0].lowercased() == "tunnel", let token = Base64.url.decode(String(parts[1])),
            token.count == TunnelPreface.tokenByteCount
        else {
            throw ProblemDetails(
                .unauthorized,
                "A tunnel needs Authorization: Tunnel and this side's token in base64url.",
                headers: [.wwwAuthenticate: "Tunnel"]
            )
        }
        return Secret(token)
    }

    private static func accept(
        _ head: HTTPRequestHead,
        for subprotocol: String,
        isOwnOrigin: (String) -> Bool
    ) throws(ProblemDetails) -> String {
        guard head.method == .GET, head.version == .http1_1, !head.hasBody,
            head.headers[canonicalForm: "connection"].contains(where: { $0.lowercased() == "upgrade" })
        else {
            throw ProblemDetails(.badRequest, "A WebSocket begins with GET, HTTP/1.1, Connection: Upgrade, and no body.")
        }
        guard head.headers["sec-websocket-version"] == ["13"] else {
            throw ProblemDetails(.upgradeRequired, "WebSocket version 13 is needed.", headers: [.secWebSocketVersion: "13"])
        }
        let keys = head.headers["sec-websocket-key"]
        guard keys.count == 1, let key = keys.first, key.utf8.count == 24, Data(base64Encoded: key)?.count == 16 else {
            throw ProblemDetails(.badRequest, "One Sec-WebSocket-Key of 16 bytes is needed.")
        }
        for origin in head.headers["origin"] where !isOwnOrigin(origin) {
            throw ProblemDetails(.forbidden, "Pages of other origins may not connect.")
        }
        guard head.headers[canonicalForm: "sec-websocket-protocol"].contains(where: { $0 == subprotocol }) else {
            throw ProblemDetails(.badRequest, "The subprotocol \(subprotocol) is needed.")
        }
        let digest = Insecure.SHA1.hash(data: Data((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8))
        return Data(digest).base64EncodedString()
    }
}

extension ProblemDetails {
    package static let tooManyConnections = ProblemDetails(
        .tooManyRequests,
        "This address has too many unauthenticated connections.",
        headers: [.retryAfter: "10"]
    )
    package static let wrongHost = ProblemDetails(
        .misdirectedRequest,
        "The Host field does not name an address of this relay. To serve this name, set it with --url."
    )
    static let oneHost = ProblemDetails(.badRequest, "One Host field is needed.")
    /// Does not show whether the tunnel or the token is wrong.
    package static let noTunnel = ProblemDetails(.notFound, "No tunnel is open to this token.")
}

extension HTTPRequestHead {
    fileprivate var hasBody: Bool {
        headers.contains(name: "transfer-encoding") || headers["content-length"].contains { $0 != "0" }
    }
}

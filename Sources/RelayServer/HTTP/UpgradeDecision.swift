// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import HTTPTypes
package import NIOHTTP1

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// What becomes of a connection's first request.
package enum UpgradeDecision: Hashable, Sendable {
    /// Not for a WebSocket: the HTTP server's.
    case ordinary
    /// A control channel; the text answers the client's key (RFC 6455 §4.2.2).
    case controlChannel(accept: String)
    /// It asks for a WebSocket and does not get it.
    case refused(ProblemDetails)

    package static let controlPath = "/v1/connect"
    package static let controlSubprotocol = "device-relay.v1"

    /// - Parameters:
    ///   - isOwnHost: whether the `Host` is the relay's.
    ///   - isOwnOrigin: whether a page of this origin may connect.
    package init(head: HTTPRequestHead, isOwnHost: (String) -> Bool, isOwnOrigin: (String) -> Bool) {
        guard head.headers[canonicalForm: "upgrade"].contains(where: { $0.lowercased() == "websocket" }) else {
            self = .ordinary
            return
        }
        do throws(ProblemDetails) {
            self = .controlChannel(accept: try Self.check(head, isOwnHost: isOwnHost, isOwnOrigin: isOwnOrigin))
        } catch {
            self = .refused(error)
        }
    }

    private static func check(
        _ head: HTTPRequestHead,
        isOwnHost: (String) -> Bool,
        isOwnOrigin: (String) -> Bool
    ) throws(ProblemDetails) -> String {
        let hosts = head.headers["host"]
        guard hosts.count == 1, let host = hosts.first else { throw ProblemDetails(.badRequest, "One Host field is needed.") }
        guard isOwnHost(host) else { throw .wrongHost }
        let path = head.uri.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false).first.map(String.init) ?? head.uri
        guard path == controlPath else {
            throw ProblemDetails(.notFound, "There is no WebSocket here; the control channel is at \(controlPath).")
        }
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
        guard head.headers[canonicalForm: "sec-websocket-protocol"].contains(where: { $0 == controlSubprotocol }) else {
            throw ProblemDetails(.badRequest, "The subprotocol \(controlSubprotocol) is needed.")
        }
        let digest = Insecure.SHA1.hash(data: Data((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").utf8))
        return Data(digest).base64EncodedString()
    }
}

extension ProblemDetails {
    package static let wrongHost = ProblemDetails(
        .misdirectedRequest,
        "The Host is none of this relay's. If it is meant to be, name it with --url."
    )
}

extension HTTPRequestHead {
    fileprivate var hasBody: Bool {
        headers.contains(name: "transfer-encoding") || headers["content-length"].contains { $0 != "0" }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import HTTPTypes
import Hummingbird

/// A way into the API, and what a request has to prove there.
enum APIDoor: Sendable {
    /// The Unix socket of this user.
    case socket
    case network(APIListener)
    /// The browser of this user.
    case console(ConsoleDoor)

    /// A page of the Internet whose name leads to this machine has another host.
    /// - Throws: `APIRefusal`: `hostRefused`.
    func checkHost(_ request: Request) throws {
        let authority = request.head.authority ?? ""
        let (isOwn, own) =
            switch self {
            case .socket: (true, "")
            case .network(let listener): (listener.serves(authority), listener.address)
            case .console(let console):
                (console.authority.map { authority.utf8.elementsEqual($0.utf8) } ?? false, console.authority ?? "closed")
            }
        guard isOwn else { throw APIRefusal(421, AgentError("hostRefused", "this server is \(own)", .usage)) }
    }

    /// Refuses a request that a page elsewhere may have caused. The files of the console hold no data, and are not checked: the first one
    /// is reached from elsewhere.
    /// - Throws: `APIRefusal`: `originRefused`.
    func checkOrigin(_ request: Request) throws {
        let origin = request.headers[.origin]
        var isAllowed = origin == nil
        if case .console(let console) = self {
            isAllowed = origin.map { $0.utf8.elementsEqual((console.origin ?? "none").utf8) } ?? (request.method == .get)
            isAllowed = isAllowed && (request.header("Sec-Fetch-Site") ?? "same-origin") == "same-origin"
        }
        guard isAllowed else {
            throw APIRefusal(403, AgentError("originRefused", "pages of a browser may not use this API", .declined))
        }
    }

    /// Who makes a request. A token that is sent limits its sender, also on the socket.
    func principal(of request: Request, _ store: AgentStore) async throws -> Principal {
        guard let value = request.headers[.authorization] else {
            switch self {
            case .socket: return .owner
            case .network: throw Self.unauthorized("tokenMissing", "send Authorization: Bearer TOKEN; make one: relay token add NAME")
            case .console: throw Self.unauthorized("tokenMissing", "open the console anew: relay console")
            }
        }
        let parts = value.split(separator: " ", maxSplits: 1)
        guard parts.count == 2, parts[0].lowercased() == "bearer" else {
            throw Self.unauthorized("tokenInvalid", "Authorization is not Bearer TOKEN")
        }
        let text = parts[1].trimmingCharacters(in: .whitespaces)
        if case .console(let console) = self { return .console(try console.session(text)) }
        guard let token = try await store.token(APIToken.digest(of: text)) else {
            throw Self.unauthorized("tokenInvalid", "the token is unknown, expired or removed: relay token list")
        }
        return .token(token)
    }

    private static func unauthorized(_ code: String, _ message: String) -> APIRefusal {
        APIRefusal(401, AgentError(code, message, .notSignedIn))
    }
}

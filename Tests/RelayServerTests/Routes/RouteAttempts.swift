// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting

@testable import RelayIssuer

/// A request, and the answer that it must get.
struct RouteAttempt {
    var name: String
    var request: RouteRequest
    var status: Int
    /// A text of the answer's body or location.
    var text = ""
    /// The rows that it may add, by the beginning of their text: a failed sign-in is recorded.
    var adds = ""
}

/// What must be refused at a route.
struct RouteAttempts {
    let world: RouteWorld
    /// Such as `/auth/token`.
    let path: String

    // MARK: Access tokens

    /// Tokens in the header, each with a proof of a key. All but the valid one are to be refused where a token is needed.
    func tokens() async throws -> [(name: String, headers: [(String, String)], status: Int, error: String)] {
        let (phone, pc) = (world.phone, world.pc)
        func by(_ endpoint: WireEndpoint, _ token: String, scheme: String = "DPoP") throws -> [(String, String)] {
            [("Authorization", "\(scheme) \(token)"), ("DPoP", try endpoint.proof(for: path, accessToken: token))]
        }
        let good = try await world.token()
        let small = try await world.token(scopes: try requireScopes("offline_access relay.device.read relay.command relay.push"))
        return [
            ("no token", [], 401, "invalid_token"),
            ("an empty token", [("Authorization", "DPoP ")], 401, "invalid_token"),
            ("another account's token", try by(phone, world.laptop.token), 401, "invalid_token"),
            ("an expired token", try by(phone, try await world.token(age: 3_600_000)), 401, "invalid_token"),
            ("a token of the future", try by(phone, try await world.token(age: -3_600_000)), 401, "invalid_token"),
            ("a token without the scope", try by(phone, small), 403, "insufficient_scope"),
            ("a token for another audience", try by(phone, try await world.token(audience: "other")), 401, "invalid_token"),
            ("a token of another issuer", try by(phone, try await world.token(issuer: "https://other.example")), 401, "invalid_token"),
            ("a token with another signature", try by(phone, try await world.token(by: P256SigningKey())), 401, "invalid_token"),
            ("a revoked token", try by(world.tablet, world.tablet.token), 401, "invalid_token"),
            ("another endpoint's token", try by(pc, good), 401, "invalid_token"),
            ("a token bound to no key", try by(phone, try await world.token(isBound: false)), 403, "access_denied"),
            ("a bound token as bearer", try by(phone, good, scheme: "Bearer"), 401, "invalid_token"),
            ("a token without proof", [("Authorization", "DPoP \(good)")], 401, "invalid_dpop_proof"),
            (
                "a proof for another token", [("Authorization", "DPoP \(good)"), ("DPoP", try phone.proof(for: path, accessToken: small))],
                401, "invalid_dpop_proof"
            ),
            (
                "a proof for another route",
                [("Authorization", "DPoP \(good)"), ("DPoP", try phone.proof(for: path + "/x", accessToken: good))], 401,
                "invalid_dpop_proof"
            ),
            ("a refresh token", try by(phone, phone.refreshToken), 401, "invalid_token"),
        ]
    }

    func requireScopes(_ text: String) throws -> Scopes {
        guard let scopes = Scopes(parsing: text) else { throw WireEndpoint.Unexpected(message: "no scopes") }
        return scopes
    }

    // MARK: Browsers

    static let login = "/auth/at/\(RouteWorld.visit)/login"

    static func cookie(_ name: String) -> String { "\(name)-\(RouteWorld.visit)" }

    func headers(of browser: RouteBrowser, origin: String? = nil, setUp: String? = nil) -> [(String, String)] {
        [
            (
                "Cookie",
                "\(Self.cookie("relay-browser"))=\(browser.cookie)" + (setUp.map { "; \(Self.cookie("relay-set-up"))=\($0)" } ?? "")
            ),
            ("Origin", origin ?? world.relayd.origin),
        ]
    }

    func form(_ fields: [String: String], of browser: RouteBrowser, code: String? = nil, origin: String? = nil, setUp: String? = nil)
        -> RouteRequest
    {
        var fields = fields
        fields["form_code"] = code ?? browser.code
        return .form(fields.filter { !$0.value.isEmpty }, headers: headers(of: browser, origin: origin, setUp: setUp))
    }

    /// Browsers that are signed in no more, or never were.
    func outsiders() async throws -> [(name: String, browser: RouteBrowser)] {
        [
            ("a new browser", try await world.browser()),
            ("an unused session", try await world.browser(of: world.anna, age: WebSession.idleLife)),
            ("an old session", try await world.browser(of: world.anna, age: WebSession.wholeLife)),
            ("a signed-out session", try await world.signedOut()),
        ]
    }

    func session(query: String, _ others: RouteTable.Others) async throws -> [RouteAttempt] {
        func refused(_ name: String, _ headers: [(String, String)]) -> RouteAttempt {
            let request = RouteRequest(headers: headers, query: query)
            return switch others {
            case .redirected: RouteAttempt(name: name, request: request, status: 303, text: "/auth/login")
            case .asked: RouteAttempt(name: name, request: request, status: 200, text: "action=\"\(Self.login)\"")
            }
        }
        var attempts = [refused("no cookie", []), refused("a damaged cookie", [("Cookie", "\(Self.cookie("relay-browser"))=x")])]
        for (name, browser) in try await outsiders() { attempts.append(refused(name, headers(of: browser))) }
        let eve = try await world.browser(of: world.eve)
        attempts.append(RouteAttempt(name: "another account", request: .init(headers: headers(of: eve), query: query), status: 200))
        return attempts
    }

    /// A form that is not this browser's own.
    func forged(_ fields: [String: String], _ browser: RouteBrowser, setUp: String? = nil) async throws -> [RouteAttempt] {
        let other = try await world.browser(of: world.eve)
        var bare = form(fields, of: browser)
        bare.headers.removeAll { $0.0 == "Cookie" }
        return [
            ("no cookie", bare), ("no form code", form(fields, of: browser, code: "", setUp: setUp)),
            ("another browser's form code", form(fields, of: browser, code: other.code, setUp: setUp)),
            ("a damaged form code", form(fields, of: browser, code: String(browser.code.dropLast()), setUp: setUp)),
            ("another site's form", form(fields, of: browser, origin: "https://evil.example", setUp: setUp)),
            ("a form of no site", form(fields, of: browser, origin: "null", setUp: setUp)),
        ].map { RouteAttempt(name: $0.0, request: $0.1, status: 403) }
    }

    func ownForm(_ fields: RouteTable.Fields, _ others: RouteTable.Fields?, isFresh: Bool) async throws -> [RouteAttempt] {
        let own = try await fields(world)
        var attempts = try await forged(own, try await world.browser(of: world.anna))
        for (name, browser) in try await outsiders() {
            attempts.append(RouteAttempt(name: name, request: form(own, of: browser), status: 303, text: "/auth/login"))
        }
        if isFresh {
            let stale = try await world.browser(of: world.anna, age: WebSession.freshness)
            attempts.append(RouteAttempt(name: "a session that is not fresh", request: form(own, of: stale), status: 403))
        }
        return attempts
    }

    // MARK: Tokens in forms

    func grants() async throws -> [RouteAttempt] {
        let (phone, pc) = (world.phone, world.pc)
        let (past, soon) = (world.before(1_000), world.after(600_000))
        func attempt(
            _ name: String,
            _ grant: String,
            _ fields: [String: String],
            by key: WireEndpoint? = phone,
            at place: String? = nil,
            _ error: String
        )
            throws -> RouteAttempt
        {
            let fields = ["client_id": RouteWorld.client, "grant_type": grant].merging(fields) { $1 }
            let proof = try key.map { [("DPoP", try $0.proof(for: place ?? path))] } ?? []
            return RouteAttempt(
                name: name,
                request: .form(fields.filter { !$0.value.isEmpty }, headers: proof),
                status: 400,
                text: #""\#(error)""#
            )
        }
        let (invitation, device) = (TokenRequest.preAuthorizedCode, TokenRequest.deviceCode)
        let redemption = Invitation.Redemption(key: phone.identityKey.publicKey.jwkThumbprint, family: world.login.id)
        let used = try await world.invitation(expires: soon, redemption)
        let old = try await world.invitation(expires: past, redemption)
        let open = try await world.invitation(expires: soon)
        let (live, narrow) = (
            try await world.refreshToken(), try await world.refreshToken(scopes: try requireScopes("offline_access relay.device.read"))
        )
        let pending = try await world.deviceCode(expires: soon, .allowed(subject: world.anna))
        let code = try await world.authorizationCode(expires: soon)
        let app = ["client_id": world.app.id, "redirect_uri": RouteWorld.redirect, "code_verifier": RouteWorld.verifier]
        func redeem(_ name: String, _ code: String, _ changes: [String: String] = [:], _ error: String = "invalid_grant") throws
            -> RouteAttempt
        {
            try attempt(name, "authorization_code", app.merging(["code": code]) { $1 }.merging(changes) { $1 }, error)
        }
        return try [
            attempt("no grant", "", [:], "invalid_request"),
            attempt("an unknown grant", "password", ["username": "Anna", "password": RouteWorld.password], "unsupported_grant_type"),
            attempt("no invitation", invitation, [:], "invalid_request"),
            attempt("a damaged invitation", invitation, ["pre-authorized_code": "x"], "invalid_grant"),
            attempt("an unknown invitation", invitation, ["pre-authorized_code": InvitationCode().text.exposed], "invalid_grant"),
            attempt(
                "an expired invitation",
                invitation,
                ["pre-authorized_code": try await world.invitation(expires: past)],
                "invalid_grant"
            ),
            attempt("a used invitation that has expired", invitation, ["pre-authorized_code": old], "invalid_grant"),
            attempt("another key's used invitation that has expired", invitation, ["pre-authorized_code": old], by: pc, "invalid_grant"),
            attempt(
                "another client's used invitation",
                invitation,
                ["pre-authorized_code": used, "client_id": "org.example.other"],
                "invalid_grant"
            ),
            attempt("a used invitation, without key", invitation, ["pre-authorized_code": used], by: nil, "invalid_grant"),
            attempt("an invitation with an unknown scope", invitation, ["pre-authorized_code": open, "scope": "all"], "invalid_scope"),
            attempt("an invitation without client", invitation, ["pre-authorized_code": open, "client_id": ""], "invalid_request"),
            attempt(
                "an invitation with another route's proof",
                invitation,
                ["pre-authorized_code": open],
                at: "/auth/invitations",
                "invalid_dpop_proof"
            ),
            attempt("no refresh token", "refresh_token", [:], "invalid_request"),
            attempt("an access token to refresh", "refresh_token", ["refresh_token": phone.token], "invalid_grant"),
            attempt("an unknown refresh token", "refresh_token", ["refresh_token": world.unknownRefreshToken], "invalid_grant"),
            attempt("a forged refresh token", "refresh_token", ["refresh_token": world.forgedRefreshToken], "invalid_grant"),
            attempt("another account's refresh token", "refresh_token", ["refresh_token": world.laptop.refreshToken], "invalid_grant"),
            attempt(
                "an unused refresh token",
                "refresh_token",
                ["refresh_token": try await world.refreshToken(age: RefreshFamily.idleLife)],
                "invalid_grant"
            ),
            attempt(
                "a revoked refresh token",
                "refresh_token",
                ["refresh_token": try await world.refreshToken(isRevoked: true)],
                "invalid_grant"
            ),
            attempt(
                "another client's refresh token",
                "refresh_token",
                ["refresh_token": live, "client_id": "org.example.other"],
                "invalid_grant"
            ),
            attempt("another endpoint's refresh token", "refresh_token", ["refresh_token": live], by: pc, "invalid_grant"),
            attempt("a bound refresh token without proof", "refresh_token", ["refresh_token": live], by: nil, "invalid_grant"),
            attempt("a refresh token for more", "refresh_token", ["refresh_token": narrow, "scope": "relay.command"], "invalid_scope"),
            attempt("no device code", device, [:], "invalid_request"),
            attempt("an unknown device code", device, ["device_code": "x"], "invalid_grant"),
            attempt(
                "an expired device code",
                device,
                ["device_code": try await world.deviceCode(expires: past, .allowed(subject: world.anna))],
                "expired_token"
            ),
            attempt("a refused device code", device, ["device_code": try await world.deviceCode(expires: soon, .denied)], "access_denied"),
            attempt("another client's device code", device, ["device_code": pending, "client_id": "org.example.other"], "invalid_grant"),
            redeem("no code", "", [:], "invalid_request"),
            redeem("an unknown code", "x"),
            redeem("an expired code", try await world.authorizationCode(expires: past)),
            redeem("another client's code", code, ["client_id": RouteWorld.client]),
            redeem("a code for another redirect", code, ["redirect_uri": RouteWorld.redirect + "/x"]),
            redeem("a code with another verifier", code, ["code_verifier": String(repeating: "w", count: 43)]),
            redeem("a code without verifier", code, ["code_verifier": ""], "invalid_request"),
        ]
    }

    func refreshTokens() async throws -> [RouteAttempt] {
        func attempt(_ name: String, _ token: String, client: String = RouteWorld.client, status: Int = 200, _ error: String = "")
            -> RouteAttempt
        {
            let fields = ["client_id": client, "token": token].filter { !$0.value.isEmpty }
            return RouteAttempt(name: name, request: .form(fields), status: status, text: error)
        }
        return [
            attempt("no token", "", status: 400, "invalid_request"),
            attempt("no client", world.phone.refreshToken, client: "", status: 400, "invalid_request"),
            attempt("another client's token", world.phone.refreshToken, client: "org.example.other", status: 400, "unauthorized_client"),
            attempt("an access token", world.phone.token, status: 400, "unsupported_token_type"),
            // RFC 7009: what is not known is no error.
            attempt("an unknown token", world.unknownRefreshToken), attempt("a forged token", world.forgedRefreshToken),
            attempt("a revoked token", try await world.refreshToken(isRevoked: true)), attempt("something else", "x"),
        ]
    }

    func introspections() async throws -> [RouteAttempt] {
        func basic(_ text: String) -> [(String, String)] { [("Authorization", "Basic " + Data(text.utf8).base64EncodedString())] }
        let secret = world.resourceServer.exposed
        let token = ["token": world.phone.token]
        var attempts = [
            ("no secret", []), ("a wrong secret", basic("server:x")), ("no password", basic("server:")),
            ("an unknown server", basic("other:\(secret)")), ("the secret as bearer", [("Authorization", "Bearer \(secret)")]),
            ("the token itself", [("Authorization", "Bearer \(world.phone.token)")]),
        ].map { RouteAttempt(name: $0.0, request: .form(token, headers: $0.1), status: 401, text: "invalid_client") }
        for (name, token) in [
            ("an expired token", try await world.token(age: 3_600_000)), ("a revoked token", world.tablet.token),
            ("a token for another audience", try await world.token(audience: "other")),
            ("a token with another signature", try await world.token(by: P256SigningKey())),
            ("a revoked refresh token", try await world.refreshToken(isRevoked: true)),
            ("a forged refresh token", world.forgedRefreshToken),
        ] {
            let request = RouteRequest.form(["token": token], headers: basic("server:\(secret)"))
            attempts.append(RouteAttempt(name: name, request: request, status: 200, text: #"{"active":false}"#))
        }
        return attempts
    }
}

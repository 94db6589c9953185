// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting

@testable import RelayIssuer

/// Every HTTP route, and what a request needs there.
enum RouteTable {
    /// What lets a request in.
    enum Need {
        /// Nothing: it is public, for a reason. The status is the answer to everybody.
        case nothing(status: Int, because: String)
        /// Nothing, and the request creates a row of one table, which belongs to nobody, or no row.
        case nothingToCreate(in: String?, request: RouteRequest, status: Int, because: String)
        /// An access token with a proof of its key.
        case accessToken
        /// What the form of the token endpoint holds.
        case grant
        /// A refresh token, to end its login.
        case refreshToken
        /// The secret of a resource server.
        case resourceServer
        /// A signed-in browser. Others are sent to the page for signing in, or see it in its place.
        case session(query: @Sendable (RouteWorld) -> String = { _ in "" }, others: Others)
        /// The browser's own form, with a credential in it that the user gives.
        case credential(fields: Fields, wrong: Fields, status: Int)
        /// What a person types at a terminal, in a form without a browser's Origin.
        case typed(fields: Fields, wrong: Fields, status: Int, changes: Bool = true)
        /// The browser's own form, and the cookie of a set-up link.
        case setUpLink(fields: Fields, valid: Int)
        /// The browser's own form, and a signed-in user. `others` are the fields when another user sends it: they aim at Anna's things.
        case ownForm(fields: Fields, others: Fields? = nil, isFresh: Bool = false, valid: Int = 303)
    }

    enum Others { case redirected, asked }

    typealias Fields = @Sendable (RouteWorld) async throws -> [String: String]

    static let pages = "a page that holds nothing of an account"
    static let metadata = "clients read it before they have a token"

    /// In the order in which the valid requests are made.
    static let relay: [(route: String, need: Need)] =
        clients
        + ofBrowsers.flatMap { page in
            if page.route.hasPrefix("POST /auth/terminal/") { return [page] }
            let parts = page.route.split(separator: " /auth/").map(String.init)
            // Without TLS, the issuer's own path begins a visit, and takes no form.
            let begin = (route: page.route, need: Need.nothing(status: parts[0] == "GET" ? 303 : 403, because: "it begins a visit"))
            return [begin, (route: "\(parts[0]) /auth/at/{visit}/\(parts[1])", need: page.need)]
        }

    private static let clients: [(route: String, need: Need)] = [
        ("GET /healthz", .nothing(status: 200, because: "a supervisor asks whether the process answers")),
        ("GET /readyz", .nothing(status: 200, because: "a supervisor asks whether the relay can store")),
        ("GET /.well-known/oauth-protected-resource", .nothing(status: 200, because: metadata)),
        ("GET /v1/tunnels", .nothing(status: 200, because: "a client without a channel diagnoses its network; it names ports alone")),
        ("GET /v1/connect", .nothing(status: 426, because: "the hello on the WebSocket is checked, see RejectedTokenAttackTests")),
        ("GET /v1/tunnels/{id}", .nothing(status: 426, because: "the tunnel's one-time token is checked, see TunnelEntryTests")),
        ("GET /auth/.well-known/openid-configuration", .nothing(status: 200, because: metadata)),
        ("GET /auth/.well-known/oauth-authorization-server", .nothing(status: 200, because: metadata)),
        ("GET /.well-known/oauth-authorization-server/auth", .nothing(status: 200, because: metadata)),
        ("GET /auth/jwks", .nothing(status: 200, because: "the keys are public")),
        ("GET /", .nothing(status: 303, because: "leads to the account page, which asks for a sign-in")),
        ("GET /auth", .nothing(status: 303, because: "leads to the account page, which asks for a sign-in")),
        ("GET /auth/style.css", .nothing(status: 200, because: "the same for all")),
        ("GET /auth/mark.svg", .nothing(status: 200, because: "the same for all")),
        ("GET /auth/times.js", .nothing(status: 200, because: "the same for all")),
        ("GET /auth/passkey.js", .nothing(status: 200, because: "the same for all")),
        (
            "POST /auth/device_authorization",
            .nothingToCreate(
                in: "device_authorization",
                request: .form(["client_id": RouteWorld.client]),
                status: 200,
                because: "a device asks before it has a user; it gets nothing until one decides"
            )
        ),
        (
            "POST /auth/register",
            .nothingToCreate(
                in: nil,
                request: RouteRequest(
                    headers: [("Content-Type", "application/json")],
                    body: #"{"redirect_uris":["http://127.0.0.1/done"]}"#
                ),
                status: 201,
                because: "a native app registers itself; a client may do nothing until a user allows it"
            )
        ),
        ("POST /auth/token", .grant),
        ("POST /auth/revoke", .refreshToken),
        ("POST /auth/introspect", .resourceServer),
        ("POST /auth/invitations", .accessToken),
    ]

    /// The name and a new recovery code of Anna.
    private static func recoveryCode(in world: RouteWorld) async throws -> [String: String] {
        let code = RecoveryCode()
        let digest = code.digest(by: world.issuer.master.recoveryKey)
        try await world.issuer.store.write { [anna = world.anna] in try $0.setRecoveryCodes([digest], of: anna) }
        return ["name": "Anna", "code": code.text.exposed]
    }

    /// The issuer's pages.
    private static let ofBrowsers: [(route: String, need: Need)] = [
        ("GET /auth/login", .nothing(status: 200, because: pages)),
        ("GET /auth/recover", .nothing(status: 200, because: pages)),
        (
            "GET /auth/setup",
            .nothing(status: 403, because: "the link's token is checked; without it the page says that the link is unknown")
        ),
        ("GET /auth/account", .session(others: .redirected)),
        ("GET /auth/account/remove", .session(others: .redirected)),
        ("GET /auth/device", .session(others: .asked)),
        (
            "GET /auth/authorize",
            .session(query: { $0.authorization }, others: .asked)
        ),
        (
            "POST /auth/login",
            .credential(
                fields: { _ in ["name": "Anna", "password": RouteWorld.password] },
                wrong: { _ in ["name": "Anna", "password": RouteWorld.otherPassword] },
                status: 401
            )
        ),
        // A passkey works with a name alone, not at 127.0.0.1: see PasskeyAttackTests.
        ("POST /auth/login/passkey", .credential(fields: { _ in [:] }, wrong: { _ in ["credential": "AAAA"] }, status: 403)),
        (
            "POST /auth/recover",
            .credential(
                fields: recoveryCode,
                wrong: { _ in ["name": "Anna", "code": RecoveryCode().text.exposed] },
                status: 401
            )
        ),
        (
            "POST /auth/terminal/device",
            .typed(
                fields: { _ in ["client_id": RouteWorld.client, "name": "Anna", "password": RouteWorld.password] },
                wrong: { _ in ["client_id": RouteWorld.client, "name": "Anna", "password": RouteWorld.otherPassword] },
                status: 401
            )
        ),
        (
            "POST /auth/terminal/recovery",
            .typed(
                fields: recoveryCode,
                wrong: { _ in ["name": "Anna", "code": RecoveryCode().text.exposed] },
                status: 401
            )
        ),
        (
            "POST /auth/terminal/setup",
            .typed(
                fields: { ["token": try await $0.setUpToken(expires: $0.after(600_000))] },
                wrong: { ["token": try await $0.setUpToken(expires: $0.before(1_000))] },
                status: 403,
                changes: false
            )
        ),
        (
            "POST /auth/terminal/password",
            .typed(
                fields: { _ in ["name": "Anna", "password": RouteWorld.password, "new_password": RouteWorld.password] },
                wrong: { _ in ["name": "Anna", "password": RouteWorld.otherPassword, "new_password": RouteWorld.password] },
                status: 401
            )
        ),
        ("POST /auth/setup/passkey", .setUpLink(fields: { _ in [:] }, valid: 400)),
        (
            "POST /auth/setup",
            .setUpLink(fields: { _ in ["password": RouteWorld.password, "repeated": RouteWorld.password] }, valid: 303)
        ),
        (
            "POST /auth/authorize",
            .ownForm(fields: { ["request": $0.authorization, "decision": "allow"] })
        ),
        (
            "POST /auth/device",
            .ownForm(
                fields: { world in
                    let code = UserCode()
                    _ = try await world.deviceCode(expires: world.after(600_000), .pending, userCode: code)
                    return ["user_code": code.text]
                },
                valid: 200
            )
        ),
        (
            "POST /auth/device/decision",
            .ownForm(
                fields: { try await decision(on: .pending, $0) },
                others: { world in try await decision(on: .allowed(subject: world.anna), world) },
                valid: 200
            )
        ),
        ("POST /auth/logout", .ownForm(fields: { _ in [:] })),
        (
            "POST /auth/account/browser",
            .ownForm(fields: { ["browser": Base64.url.encode(try await $0.browser(of: $0.anna).session.bytes)] })
        ),
        ("POST /auth/account/codes", .ownForm(fields: { _ in [:] }, isFresh: true, valid: 200)),
        ("POST /auth/account/passkey", .ownForm(fields: { _ in [:] }, isFresh: true, valid: 400)),
        (
            "POST /auth/account/passkey/remove",
            .ownForm(
                fields: { world in
                    let id = randomBytes(16)
                    let key = PasskeyKey(algorithm: -7, spki: P256SigningKey().publicKey.spki)
                    if let key {
                        let passkey = Passkey(id: id, subject: world.anna, key: key, name: "Key", created: world.now, counter: 0)
                        try await world.issuer.store.write { try $0.insert(passkey) }
                    }
                    return ["passkey": Base64.url.encode(id), "confirmed": "yes"]
                },
                isFresh: true
            )
        ),
        ("POST /auth/account/login", .ownForm(fields: { ["session": $0.login.id.session, "confirmed": "yes"] })),
        ("POST /auth/account/device", .ownForm(fields: { ["endpoint": "\($0.phone.id)", "confirmed": "yes"] }, isFresh: true)),
        (
            "POST /auth/account/identity",
            .ownForm(
                fields: { world in
                    let subject = UUID().uuidString
                    _ = try await world.relayd.run("account", "link", "Anna", "--issuer", RouteWorld.otherIssuer, "--subject", subject)
                    return ["issuer": RouteWorld.otherIssuer, "subject": subject, "confirmed": "yes"]
                },
                isFresh: true
            )
        ),
        (
            "POST /auth/account/password",
            .ownForm(
                fields: { _ in ["password": RouteWorld.password, "repeated": RouteWorld.password] },
                others: { _ in ["password": RouteWorld.otherPassword, "repeated": RouteWorld.otherPassword] },
                isFresh: true
            )
        ),
        (
            "POST /auth/account/remove",
            .ownForm(fields: { _ in ["password": RouteWorld.password, "confirmed": "yes"] }, isFresh: true, valid: 200)
        ),
    ]

    /// The routes of the address for metrics.
    static let metrics: [(route: String, need: Need)] = [
        ("GET /metrics", .nothing(status: 200, because: "the operator chooses who reaches that address; it holds numbers alone"))
    ]

    private static func decision(on decision: DeviceAuthorization.Decision, _ world: RouteWorld) async throws -> [String: String] {
        let code = try await world.deviceCode(expires: world.after(600_000), decision)
        return ["request": Base64.url.encode(Digest256(hashing: Array(code.utf8)).bytes), "decision": "allow"]
    }
}

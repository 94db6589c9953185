// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Hummingbird
import Logging
import RelayComposition
import RelayProtocol
import RelayTesting
import Testing

@testable import RelayIssuer
@testable import RelayServer

/// Every HTTP route with every credential that must not count: it is refused with the right status, and nothing changes.
@Suite(.timeLimit(.minutes(10))) struct RouteMatrixAttackTests {
    /// The routers are those of `relayd`, so that a new route without a row fails.
    @Test func everyRouteHasARow() async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "routes-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: directory) }
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: false)
        var configuration = RelayConfiguration(dataDirectory: directory.path)
        configuration.listen = [ListenAddress(host: "127.0.0.1", port: 8_080)]
        let composition = try await Composition(
            configuration,
            stores: try Stores(SQLiteStore(), in: directory.path),
            metrics: PrometheusMetrics(),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
        defer { try? composition.issuer.close() }
        let routes = RelayRoutes(
            origins: OwnOrigins(urls: [], isTLS: false),
            issuers: { AcceptedIssuers([]) },
            tunnelPorts: { [] },
            obstacle: { nil }
        )
        let metrics = MetricsRoutes(address: configuration.listen[0], metrics: PrometheusMetrics())
        #expect(Self.names(routes.makeRouter(adding: composition.parts.addRoutes)) == RouteTable.relay.map(\.route).sorted())
        #expect(Self.names(metrics.makeRouter()) == RouteTable.metrics.map(\.route).sorted())
    }

    private static func names(_ router: Router<RelayRequestContext>) -> [String] {
        router.routes.map { "\($0.method) \($0.path)" }.sorted()
    }

    @Test func credentialsThatDoNotCountAreRefusedAndChangeNothing() async throws {
        let world = try await RouteWorld.make()
        for (route, need) in RouteTable.relay {
            let parts = route.split(separator: " ").map(String.init)
            let place = Place(
                world: world,
                route: route,
                method: parts[0],
                path: parts[1].replacing("{id}", with: "x").replacing("{visit}", with: RouteWorld.visit)
            )
            try await place.check(need)
        }
        try world.issuer.close()
        #expect(try await world.relayd.stop() == 0)
    }

    @Test func metricsAreTheSameForEverybody() async throws {
        let port = try await RelaydProcess().port
        let relayd = try await RelaydProcess(arguments: ["--metrics-listen", "127.0.0.1:\(port)"])
        _ = try await relayd.start()
        for (route, need) in RouteTable.metrics {
            guard case .nothing(let status, _) = need else { continue }
            let url = "http://127.0.0.1:\(port)" + route.dropFirst("GET ".count)
            for token in ["", "Bearer x", "DPoP x", "Basic eDp4"] {
                #expect(try await SignInBrowser.request("GET", url, headers: [("Authorization", token)]).status == status)
            }
            #expect(try await SignInBrowser.request("POST", url).status == 404)
        }
        #expect(try await relayd.stop() == 0)
    }
}

/// One route of a running relay.
private struct Place {
    let world: RouteWorld
    let route: String
    let method: String
    let path: String

    var attempts: RouteAttempts { RouteAttempts(world: world, path: path) }

    func send(_ request: RouteRequest) async throws -> SignInBrowser.Page {
        let url = world.relayd.origin + path + (request.query.isEmpty ? "" : "?" + request.query)
        return try await SignInBrowser.request(method, url, headers: request.headers, body: request.body)
    }

    /// Every attempt gets its answer, and changes nothing but what it may.
    func refuse(_ attempts: [RouteAttempt]) async throws {
        var before = try world.dump()
        for attempt in attempts {
            let page = try await send(attempt.request)
            #expect(page.status == attempt.status, "\(route), \(attempt.name)")
            if !attempt.text.isEmpty {
                let text = page.text + (page.location ?? "")
                #expect(text.contains(attempt.text), "\(route), \(attempt.name): \(text)")
            }
            for secret in ["Anna", world.anna, "\(world.phone.id)"] where attempt.name == "another account" {
                #expect(!page.text.contains(secret), "\(route)")
            }
            let after = try world.dump()
            let changes = after.symmetricDifference(before)
            #expect(changes.allSatisfy { !attempt.adds.isEmpty && $0.hasPrefix(attempt.adds + " ") }, "\(route), \(attempt.name)")
            before = after
        }
    }

    /// A request that is right is served, so the others were refused for what was wrong with them.
    func serve(_ request: RouteRequest, status: Int, _ text: String = "", changes: Bool = true) async throws {
        let before = try world.dump()
        let page = try await send(request)
        #expect(page.status == status, "\(route)")
        #expect(text.isEmpty || (page.text + (page.location ?? "")).contains(text), "\(route)")
        #expect(route.hasSuffix("/logout") || page.location != "/auth/login", "\(route)")
        try await world.settle()
        #expect(try (world.dump() != before) == changes, "\(route)")
    }

    /// Tokens count at one route alone.
    func refuseTokens(_ base: RouteRequest = RouteRequest(), status: Int, adds: String = "") async throws {
        var attempts: [RouteAttempt] = []
        let valid = ("a valid token", [("Authorization", "Bearer \(try await world.token(isBound: false))")], 200, "")
        for (name, headers, _, _) in try await self.attempts.tokens() + [valid] {
            var request = base
            request.headers += headers
            attempts.append(RouteAttempt(name: name, request: request, status: status, adds: adds))
        }
        try await refuse(attempts)
    }

    func check(_ need: RouteTable.Need) async throws {
        try await world.endSessions()
        switch need {
        case .nothing(let status, _): try await refuseTokens(status: status)
        case .nothingToCreate(let table, let request, let status, _):
            try await refuseTokens(request, status: status, adds: table ?? "")
        case .accessToken:
            try await refuse(
                try await attempts.tokens().map {
                    RouteAttempt(name: $0.name, request: .init(headers: $0.headers), status: $0.status, text: $0.error)
                }
            )
            let token = try await world.token()
            let headers = [("Authorization", "DPoP \(token)"), ("DPoP", try world.phone.proof(for: path, accessToken: token))]
            try await serve(RouteRequest(headers: headers), status: 200)
        case .grant: try await checkGrants()
        case .refreshToken:
            try await refuseTokens(.form([:]), status: 400)
            try await refuse(try await attempts.refreshTokens())
            try await serve(.form(["client_id": RouteWorld.client, "token": try await world.refreshToken()]), status: 200)
        case .resourceServer:
            try await refuseTokens(.form(["token": world.phone.token]), status: 401)
            try await refuse(try await attempts.introspections())
            let basic = "Basic " + Data("server:\(world.resourceServer.exposed)".utf8).base64EncodedString()
            for token in [try await world.token(), try await world.refreshToken()] {
                let request = RouteRequest.form(["token": token], headers: [("Authorization", basic)])
                try await serve(request, status: 200, #""active":true"#, changes: false)
            }
        case .session(let request, let others):
            let query = request(world)
            try await refuseTokens(.init(query: query), status: others == .redirected ? 303 : 200)
            try await refuse(try await attempts.session(query: query, others))
            let own = attempts.headers(of: try await world.browser(of: world.anna))
            try await serve(RouteRequest(headers: own, query: query), status: 200, changes: false)
        case .credential(let fields, let wrong, let status):
            try await checkCredential(fields, wrong, status: status)
        case .typed(let fields, let wrong, let status, let changes):
            try await refuseTokens(.form([:]), status: 400)
            let right = try await fields(world)
            let origins = ["https://evil.example", "null", world.relayd.origin]
            try await refuse(
                origins.map { RouteAttempt(name: "from \($0)", request: .form(right, headers: [("Origin", $0)]), status: 400) }
            )
            try await world.forgetExpired()
            let guess = try await wrong(world)
            try await refuse([RouteAttempt(name: "a wrong credential", request: .form(guess), status: status, adds: "event")])
            let valid = try await fields(world)
            try await serve(.form(valid), status: 200, changes: changes)
        case .setUpLink(let fields, let valid): try await checkSetUp(fields, valid: valid)
        case .ownForm(let fields, let others, let isFresh, let valid):
            try await refuseTokens(.form(try await fields(world)), status: 403)
            try await refuse(try await attempts.ownForm(fields, others, isFresh: isFresh))
            let (eve, aimed) = (try await world.browser(of: world.eve), try await (others ?? fields)(world))
            try await world.forgetExpired()
            let before = try world.dump()
            _ = try await send(attempts.form(aimed, of: eve))
            let changes = try world.dump().symmetricDifference(before)
            #expect(changes == [], "\(route), another account")
            let own = attempts.form(try await fields(world), of: try await world.browser(of: world.anna))
            try await serve(own, status: valid, changes: valid < 400 && route != "POST /auth/at/{visit}/device")
        }
    }

    private func checkGrants() async throws {
        try await refuseTokens(.form(["client_id": RouteWorld.client, "grant_type": "refresh_token"]), status: 400)
        try await refuse(try await attempts.grants())
        let soon = world.after(600_000)
        let app = ["client_id": world.app.id, "redirect_uri": RouteWorld.redirect, "code_verifier": RouteWorld.verifier]
        for (grant, fields) in [
            (TokenRequest.preAuthorizedCode, ["pre-authorized_code": try await world.invitation(expires: soon)]),
            ("refresh_token", ["refresh_token": try await world.refreshToken()]),
            (TokenRequest.deviceCode, ["device_code": try await world.deviceCode(expires: soon, .allowed(subject: world.anna))]),
            ("authorization_code", app.merging(["code": try await world.authorizationCode(expires: soon)]) { $1 }),
        ] {
            let fields = ["client_id": RouteWorld.client, "grant_type": grant].merging(fields) { $1 }
            try await serve(.form(fields, headers: [("DPoP", try world.phone.proof(for: path))]), status: 200, "access_token")
        }
        // The key that used an invitation may have lost the answer, and gets its login again.
        let key = world.phone.identityKey.publicKey.jwkThumbprint
        let again = [
            "client_id": RouteWorld.client, "grant_type": TokenRequest.preAuthorizedCode,
            "pre-authorized_code": try await world.invitation(expires: soon, .init(key: key, family: world.login.id)),
        ]
        let proof = try world.phone.proof(for: path)
        try await serve(.form(again, headers: [("DPoP", proof)]), status: 200, "access_token", changes: false)
    }

    private func checkCredential(_ fields: RouteTable.Fields, _ wrong: RouteTable.Fields, status: Int) async throws {
        let (right, browser) = (try await fields(world), try await world.browser())
        try await refuseTokens(.form(right), status: 403)
        try await refuse(try await attempts.forged(right, browser))
        let guess = attempts.form(try await wrong(world), of: browser)
        // The owner's record of a failed sign-in is what may change.
        try await refuse([RouteAttempt(name: "a wrong credential", request: guess, status: status, adds: "event")])
        guard !right.isEmpty else { return }
        try await serve(attempts.form(right, of: browser), status: 303)
    }

    private func checkSetUp(_ fields: RouteTable.Fields, valid: Int) async throws {
        let (right, browser) = (try await fields(world), try await world.browser())
        let replaced = try await world.setUpToken(expires: world.after(600_000))
        try await refuseTokens(.form(right, headers: [("Cookie", "\(RouteAttempts.cookie("relay-set-up"))=\(replaced)")]), status: 403)
        try await refuse(try await attempts.forged(right, browser, setUp: replaced))
        let expired = try await world.setUpToken(expires: world.before(1_000))
        let links = [
            ("no link", nil), ("an unknown link", SetUpToken().text.exposed), ("a damaged link", "x"), ("a replaced link", replaced),
            ("an expired link", expired),
        ]
        try await refuse(links.map { RouteAttempt(name: $0.0, request: attempts.form(right, of: browser, setUp: $0.1), status: 403) })
        let live = try await world.setUpToken(expires: world.after(600_000))
        try await serve(attempts.form(right, of: browser, setUp: live), status: valid, changes: valid < 400)
    }
}

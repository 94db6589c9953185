// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import RelayTesting
import Testing

/// Secrets are put through every path of a real relay that logs all it can, also where they do not belong. They are found nowhere.
@Suite(.timeLimit(.minutes(10))) struct CanaryAttackTests {
    @Test func searchFindsEncodedSecrets() {
        var canaries = Canaries()
        let secret = "canary-0123456789"
        canaries.add("secret", secret)
        let bytes = Array(secret.utf8)
        for before in 0..<3 {
            let text = Data([UInt8](repeating: 7, count: before) + bytes + [1, 2]).base64EncodedString()
            #expect(!canaries.sightings(in: text, of: "base64").isEmpty, "\(before)")
        }
        for text in [
            secret, "x\(secret)y", bytes.map { String($0, radix: 16) }.joined(), bytes.map { "%" + String($0, radix: 16) }.joined(),
        ] {
            #expect(!canaries.sightings(in: text, of: "a text").isEmpty)
        }
        #expect(canaries.sightings(in: String(secret.dropLast()), of: "a text").isEmpty)
        let token = Base64.url.encode((0..<40).map { UInt8($0) })
        canaries.add("token", token)
        #expect(canaries.sightings(in: Data((0..<40).map { UInt8($0) }), of: "a blob").map(\.encoding) == ["decoded"])
    }

    @Test func secretsAreNotLoggedStoredOrReturned() async throws {
        let scene = try await CanaryScene()
        try await scene.signIn()
        try await scene.join()
        try await scene.useDeviceGrant()
        try await scene.useCodeGrant()
        try await scene.send()
        try await scene.misplace()
        let metrics = try await SignInBrowser.request("GET", "http://127.0.0.1:\(scene.metricsPort)/metrics").text
        #expect(metrics.contains("relay_control_channels"))
        // With the write-ahead log, then without.
        var sightings = try scene.found()
        sightings += scene.canaries.sightings(in: metrics, of: "the metrics")
        #expect(try await scene.relayd.stop() == 0)
        try scene.emptyWriteAheadLogs()
        sightings += try scene.found()
        #expect(Set(sightings).map(\.description).sorted() == [])
        #expect(scene.logged.contains("debug") || scene.logged.contains("trace"))
        #expect(scene.rejections.count > 30)
        // The search reads the files that hold something.
        #expect(try scene.placesOfTheName.isSuperset(of: ["issuer.sqlite", "relay.sqlite"]))
    }
}

/// A relay, and the secrets that it was given.
private final class CanaryScene {
    let relayd: RelaydProcess
    let metricsPort: Int
    var canaries = Canaries()
    /// The texts of all answers that refuse something.
    var rejections: [String] = []
    private let log = FileManager.default.temporaryDirectory.appending(path: "log-\(UUID().uuidString)")
    private let browser: SignInBrowser
    private let phone: WireEndpoint
    private let pc: WireEndpoint
    /// What is put where it does not belong.
    private var secrets: [String: String] = [:]
    private static let client = "org.example.test"
    private let password = "canary-password-7Jq2vWzKp9"

    init() async throws {
        metricsPort = try await RelaydProcess().port
        relayd = try await RelaydProcess(arguments: [
            "--log-level", "trace", "--metrics-listen", "127.0.0.1:\(metricsPort)", "--token-failures-per-minute", "1000000",
        ])
        #expect(FileManager.default.createFile(atPath: log.path, contents: nil))
        relayd.standardError = try FileHandle(forWritingTo: log)
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna the First")
        browser = SignInBrowser(origin: relayd.origin)
        (phone, pc) = (WireEndpoint("Phone", at: relayd), WireEndpoint("PC", at: relayd))
    }

    deinit { try? FileManager.default.removeItem(at: log) }

    var logged: String { (try? String(contentsOf: log, encoding: .utf8)) ?? "" }

    func found() throws -> [Canaries.Sighting] {
        // One search of all answers; only what is found is searched for its answer.
        let refused = canaries.sightings(in: rejections.joined(separator: "\n"), of: "the answers").isEmpty ? [] : rejections
        return try canaries.sightings(below: relayd.directory) + canaries.sightings(in: logged, of: "the log")
            + refused.flatMap { canaries.sightings(in: $0, of: "the answer \($0)") }
    }

    /// Writes all that is in them into the databases.
    func emptyWriteAheadLogs() throws {
        for file in ["issuer.sqlite", "relay.sqlite"] {
            let queue = try DatabaseQueue(path: relayd.directory.appending(path: file).path)
            _ = try queue.writeWithoutTransaction { try $0.checkpoint(.truncate) }
            try queue.close()
        }
    }

    /// The files that hold the account's name, which is no secret.
    var placesOfTheName: Set<String> {
        get throws {
            var names = Canaries()
            names.add("the name", "Anna the First")
            return Set(try names.sightings(below: relayd.directory).map(\.place))
        }
    }

    private func add(_ name: String, _ secret: String) {
        canaries.add(name, secret)
        secrets[name] = secret
    }

    private func keep(_ page: SignInBrowser.Page) {
        if page.status >= 400 { rejections.append("\(page.headers) \(page.text)") }
    }

    private func addCookies() {
        for (name, value) in browser.secrets { add("the cookie \(name) \(value.prefix(4))", value) }
    }

    // MARK: The pages

    func signIn() async throws {
        let link = try await relayd.run("account", "set-up", "Anna the First")
        add("a set-up token", try #require(link.split(separator: "=").last.map(String.init)))
        add("a password", password)
        add("a wrong password", "canary-wrong-Zk3mXq81vT")
        _ = try await browser.get(link)
        addCookies()
        _ = try await browser.get("/auth/setup")
        keep(try await browser.post("/auth/setup", ["password": password, "repeated": "canary-wrong-Zk3mXq81vT"]))
        _ = try await browser.get("/auth/setup")
        let page = try await browser.post("/auth/setup", ["password": password, "repeated": password])
        #expect(page.location == "/auth/account")
        addCookies()
        keep(try await browser.get(link))
        _ = try await browser.get("/auth/account")
        let codes = try await browser.post("/auth/account/codes", [:]).text.matches(of: /<li class="code">([A-Z-]+)<\/li>/)
        #expect(codes.count == 10)
        for (number, code) in codes.enumerated() { add("recovery code \(number)", String(code.1)) }
        let other = SignInBrowser(origin: relayd.origin)
        _ = try await other.get("/auth/login")
        keep(try await other.post("/auth/login", ["name": "Anna the First", "password": "canary-wrong-Zk3mXq81vT"]))
        _ = try await other.get("/auth/recover")
        keep(try await other.post("/auth/recover", ["name": "Anna", "code": String(codes[0].1)]))
        keep(try await other.post("/auth/recover", ["name": password, "code": password]))
        _ = try await other.get("/auth/recover")
        #expect(try await other.post("/auth/recover", ["name": "Anna the First", "code": String(codes[1].1)]).location == "/auth/setup")
        add("a recovery's set-up token", try #require(other.secrets["relay-set-up"]))
        add("a passkey's data", "canary-passkey-4Hs9bLwQ2x")
        _ = try await other.get("/auth/login")
        let passkey = Dictionary(
            uniqueKeysWithValues: ["client_data", "authenticator_data", "credential", "signature"].map {
                ($0, Base64.url.encode("canary-passkey-4Hs9bLwQ2x".utf8))
            }
        )
        keep(try await other.post("/auth/login/passkey", passkey))
        keep(try await browser.post("/auth/account/passkey", passkey.merging(["public_key": passkey["signature"] ?? ""]) { $1 }))
    }

    // MARK: Grants

    private func token(_ fields: [String: String], by endpoint: WireEndpoint? = nil) async throws -> SignInBrowser.Page {
        let headers = try endpoint.map { [("DPoP", try $0.proof(for: "/auth/token"))] } ?? []
        let page = try await post("/auth/token", ["client_id": Self.client].merging(fields) { $1 }, headers)
        return page
    }

    @discardableResult
    private func post(_ path: String, _ fields: [String: String], _ headers: [(String, String)] = []) async throws -> SignInBrowser.Page {
        let request = RouteRequest.form(fields, headers: headers)
        let page = try await SignInBrowser.request("POST", relayd.origin + path, headers: request.headers, body: request.body)
        keep(page)
        return page
    }

    func join() async throws {
        for endpoint in [phone, pc] {
            let link = try await relayd.run("invite", "Anna the First")
            add("the invitation of the \(endpoint.name)", try JoinLink(parsing: link, plainHTTP: .allowed).invite.exposed)
            try await endpoint.join(link)
            add("the first access token of the \(endpoint.name)", endpoint.token)
            add("the first refresh token of the \(endpoint.name)", endpoint.refreshToken)
            try await endpoint.refresh()
            add("the access token of the \(endpoint.name)", endpoint.token)
            add("the refresh token of the \(endpoint.name)", endpoint.refreshToken)
            try await endpoint.connect()
        }
        for name in ["Phone", "PC"] {
            let invitation = try #require(secrets["the invitation of the \(name)"])
            keep(
                try await token(["grant_type": "urn:ietf:params:oauth:grant-type:pre-authorized_code", "pre-authorized_code": invitation])
            )
        }
        let proof = try phone.proof(for: "/auth/invitations", accessToken: phone.token)
        let page = try await post("/auth/invitations", [:], [("Authorization", "DPoP \(phone.token)"), ("DPoP", proof)])
        add("the invitation of a device", try #require(try JSONValue(parsing: Array(page.text.utf8))["code"].map { try String(json: $0) }))
        let lost = WireEndpoint("Lost", at: relayd)
        try await lost.join(try await relayd.run("invite", "Anna the First"), isBound: false)
        add("a token that is revoked", lost.token)
        #expect(try await TokenCommandTests.revoke(lost.token, at: relayd) != nil)
        keep(try await token(["grant_type": "refresh_token", "refresh_token": lost.refreshToken]))
        add("a refresh token that is revoked", lost.refreshToken)
    }

    func useDeviceGrant() async throws {
        let grant = "urn:ietf:params:oauth:grant-type:device_code"
        let answer = try JSONValue(parsing: Array(try await post("/auth/device_authorization", ["client_id": Self.client]).text.utf8))
        func text(_ name: String) throws -> String { try String(json: try #require(answer[name])) }
        let (device, user) = (try text("device_code"), try text("user_code"))
        add("a device code", device)
        add("a user code", user)
        add("a typed user code", user.replacing("-", with: ""))
        _ = try await token(["grant_type": grant, "device_code": device])
        _ = try await token(["grant_type": grant, "device_code": device, "client_id": "org.example.other"])
        let page = try #require(URL(string: relayd.origin + "/auth/device?user_code=" + user))
        try await browser.decide(device: page, code: user)
        var tokens = try await token(["grant_type": grant, "device_code": device], by: phone)
        while tokens.text.contains("slow_down") {
            try await Task.sleep(for: .seconds(1))
            tokens = try await token(["grant_type": grant, "device_code": device], by: phone)
        }
        #expect(tokens.status == 200)
        try addTokens(tokens.text, "of the device grant")
        _ = try await token(["grant_type": grant, "device_code": device])
    }

    func useCodeGrant() async throws {
        let verifier = "canary-verifier-" + String(repeating: "Qz7", count: 10)
        add("a verifier", verifier)
        let body = #"{"redirect_uris":["http://127.0.0.1/done"]}"#
        let registered = try await SignInBrowser.request(
            "POST",
            relayd.origin + "/auth/register",
            headers: [("Content-Type", "application/json")],
            body: body
        )
        let client = try String(json: try #require(try JSONValue(parsing: Array(registered.text.utf8))["client_id"]))
        add("a state", "canary-state-8fGh2KpLm3")
        let query = RouteRequest.encoded([
            "response_type": "code", "client_id": client, "redirect_uri": "http://127.0.0.1/done", "state": "canary-state-8fGh2KpLm3",
            "code_challenge_method": "S256", "code_challenge": Base64.url.encode(Digest256(hashing: Array(verifier.utf8)).bytes),
        ])
        let location = try await browser.decide(app: try #require(URL(string: relayd.origin + "/auth/authorize?" + query)))
        let code = try #require(location.firstMatch(of: /code=([^&]+)/)).1
        add("an authorization code", String(code))
        let fields = [
            "grant_type": "authorization_code", "client_id": client, "code": String(code), "redirect_uri": "http://127.0.0.1/done",
            "code_verifier": verifier,
        ]
        _ = try await token(fields.merging(["redirect_uri": "http://127.0.0.1/other"]) { $1 })
        let tokens = try await token(fields, by: pc)
        #expect(tokens.status == 200)
        try addTokens(tokens.text, "of the code grant")
        _ = try await token(fields, by: pc)
        _ = try await token(fields)
    }

    private func addTokens(_ text: String, _ name: String) throws {
        let answer = try JSONValue(parsing: Array(text.utf8))
        add("an access token \(name)", try String(json: try #require(answer["access_token"])))
        add("a refresh token \(name)", try String(json: try #require(answer["refresh_token"])))
    }

    // MARK: Control channels

    /// Commands that wait, that are served, and that are refused.
    func send() async throws {
        let uri = "film:canary-uri-5TgB6yHn7U"
        add("a URI", "canary-uri-5TgB6yHn7U")
        add("a push token", "canary-push-1QaZ2wSx3E")
        #expect(try await pc.publish("org.example.player").ref != nil)
        let served = try phone.launch(uri + "/served", on: pc, number: 1)
        guard case .ok = try await phone.send(served) else { throw WireEndpoint.Unexpected(message: "not accepted") }
        #expect(try await pc.handleNext() == .launch(.init(uri: try LaunchURI(uri + "/served"))))
        #expect(try await phone.outcome(of: served, target: try pc.record().payload) == .succeeded)
        await pc.disconnect()
        for number in 2...3 as ClosedRange<UInt64> {
            let waiting = try phone.launch(uri + "/waiting", on: pc, number: number)
            guard case .ok = try await phone.send(waiting) else { throw WireEndpoint.Unexpected(message: "not accepted") }
            if number == 3 { rejections.append("\(try await phone.request { .commandCancel(.init(ref: $0, id: waiting.header.id)) })") }
        }
        let foreign = try phone.launch(uri + "/foreign", on: pc, number: 4, account: "another-account")
        rejections.append("\(try await phone.send(foreign))")
        let push = PushRegistration.apns(token: Secret("canary-push-1QaZ2wSx3E"), environment: .sandbox)
        rejections.append(
            "\(try await phone.request { .notificationsRegister(.init(ref: $0, appID: "org.example.player", displayName: "Player", channel: push)) })"
        )
    }

    // MARK: Wrong places

    /// Each secret where it does not belong.
    func misplace() async throws {
        let guest = WireEndpoint("Guest", at: relayd)
        guest.steal(from: phone)
        for (_, secret) in secrets.sorted(by: { $0.key < $1.key }) {
            let encoded = FormCoding.encode(secret)
            for path in [
                "/\(encoded)", "/auth/account?access_token=\(encoded)", "/v1/connect?access_token=\(encoded)", "/v1/tunnels/\(encoded)",
                "/auth/setup?token=\(encoded)", "/auth/authorize?client_id=\(encoded)&redirect_uri=\(encoded)&state=\(encoded)",
            ] {
                keep(
                    try await SignInBrowser.request(
                        "GET",
                        relayd.origin + path,
                        headers: [("Authorization", "Bearer \(secret)"), ("Cookie", "relay-browser=\(secret)")]
                    )
                )
            }
            // Such a method is no HTTP, so the connection may just end.
            if let page = try? await SignInBrowser.request(encoded, relayd.origin + "/") { keep(page) }
            for field in [
                "grant_type", "client_id", "scope", "refresh_token", "pre-authorized_code", "device_code", "code", "redirect_uri",
            ] {
                let fields = [
                    "grant_type": ["refresh_token": "refresh_token", "device_code": "urn:ietf:params:oauth:grant-type:device_code"][field]
                        ?? "urn:ietf:params:oauth:grant-type:pre-authorized_code"
                ]
                keep(try await token(fields.merging([field: secret]) { $1 }))
            }
            try await post("/auth/invitations", [:], [("Authorization", "DPoP \(secret)"), ("DPoP", secret)])
            try await post(
                "/auth/introspect",
                ["token": secret],
                [("Authorization", "Basic " + Data("\(secret):\(secret)".utf8).base64EncodedString())]
            )
            try await post("/auth/revoke", ["client_id": secret, "token": secret])
            keep(
                try await SignInBrowser.request(
                    "POST",
                    relayd.origin + "/auth/register",
                    headers: [("Content-Type", "application/json")],
                    body: #"{"redirect_uris":["\#(secret)"],"client_name":7}"#
                )
            )
            guest.token = secret
            let (socket, answer) = try await guest.greet(role: .host)
            rejections.append("\(answer)")
            await socket.socket.close()
            let refresh = try await phone.request { .authRefresh(.init(ref: $0, token: Secret(secret))) }
            // A token of this account is right here.
            if case .failure = refresh { rejections.append("\(refresh)") }
        }
        for text in ["password", "access token of the PC"].compactMap({ secrets["a \($0)"] ?? secrets["the \($0)"] }) {
            let other = try await TestWebSocket.open(try await TestSocket(port: relayd.port), host: relayd.host)
            _ = try await other.challenge()
            try await other.send(text: #"{"type":"\#(text)","ref":"\#(text)","\#(text)":"\#(text)""#)
            #expect(await other.closeCode() != nil)
        }
        try await misplaceNames()
    }

    /// A secret in the field for a name. The page shows what the same browser has typed, and nothing else does.
    private func misplaceNames() async throws {
        for secret in [password, phone.token] {
            let other = SignInBrowser(origin: relayd.origin)
            _ = try await other.get("/auth/login")
            let page = try await other.post("/auth/login", ["name": secret, "password": "x"])
            rejections.append("\(page.status)" + page.text.replacing(#"name="name" value="\#(secret)""#, with: ""))
        }
    }
}

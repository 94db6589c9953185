// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// Pages elsewhere, programs of other users and holders of tokens at the console of an agent.
@Suite(.serialized, .timeLimit(.minutes(10))) struct LocalConsoleAttackTests {
    /// The console of a device, as a page sees it.
    private struct Page {
        var origin: String
        var key: String
        var token = ""

        init(_ device: TestDevice) async throws {
            let url = try #require(try await device.relay("console", "--print").output.first)
            let parts = url.split(separator: "/#key=")
            (origin, key) = (String(try #require(parts.first)), String(try #require(parts.last)))
        }

        func get(_ path: String, _ headers: String...) async throws -> AgentAPI.Answer {
            try await AgentAPI.curl(["\(origin)\(path)"] + headers.flatMap { ["-H", $0] })
        }

        func post(_ path: String, _ body: String, origin: String? = nil, _ headers: String...) async throws -> AgentAPI.Answer {
            let all = ["Content-Type: application/json", "Origin: \(origin ?? self.origin)"] + headers
            return try await AgentAPI.curl(["\(self.origin)\(path)", "--data-binary", "@-"] + all.flatMap { ["-H", $0] }, input: body)
        }

        mutating func signIn() async throws {
            let answer = try await post("/v1/console/sessions", #"{"key":"\#(key)"}"#)
            #expect(answer.status == 201)
            token = try #require(try answer.json["token"] as? String)
        }

        var bearer: String { "Authorization: Bearer \(token)" }
        var port: String { String(origin.split(separator: ":").last ?? "") }
    }

    @Test func onlyItsOwnPageIsServed() async throws {
        let pair = try await AgentPair()
        var page = try await Page(pair.desk)
        try await page.signIn()
        #expect(try await page.get("/v1/devices", page.bearer).status == 200)
        // A name that leads here, as after DNS rebinding; another user's `::1`; another port.
        for host in [
            "films.example", "films.example:\(page.port)", "localhost:\(page.port)", "[::1]:\(page.port)", "127.0.0.1", "127.0.0.1:1",
            "127.1:\(page.port)", "",
        ] {
            for path in ["/", "/app.js", "/v1/devices", "/v1/console/sessions"] {
                let answer = try await page.get(path, "Host: \(host)", page.bearer)
                // Without any host the request is not HTTP/1.1.
                #expect([421, 400].contains(answer.status), "\(host) \(path)")
                #expect(!answer.text.contains("Living room"))
            }
        }
        for origin in [
            "https://films.example", "http://localhost:\(page.port)", "http://127.0.0.1:1", "null", page.origin + ".example",
        ] {
            for path in ["/v1/devices", "//v1/devices", "/v1//devices"] {
                #expect(try await page.get(path, "Origin: \(origin)", page.bearer).status != 200, "\(origin) \(path)")
            }
            let answer = try await page.post("/v1/invitations", "{}", origin: origin, page.bearer)
            #expect(answer.status == 403 && answer.code == "originRefused", "\(origin)")
        }
        let silent = try await AgentAPI.curl(
            ["\(page.origin)/v1/invitations", "-d", "{}", "-H", "Content-Type: application/json", "-H", page.bearer]
        )
        #expect(silent.status == 403 && silent.code == "originRefused", "a POST names its origin")
        for site in ["cross-site", "same-site", "none"] {
            #expect(try await page.get("/v1/devices", "Sec-Fetch-Site: \(site)", page.bearer).status == 403, "\(site)")
            #expect(try await page.get("/", "Sec-Fetch-Site: \(site)").status == 200, "\(site): the link leads here from a file")
        }
        // A form elsewhere cannot send JSON without asking first.
        let form = try await AgentAPI.curl(
            [
                "\(page.origin)/v1/invitations", "-d", "{}", "-H", "Content-Type: text/plain", "-H", page.bearer, "-H",
                "Origin: \(page.origin)",
            ]
        )
        #expect(form.status == 415)
    }

    /// Every file has every header, and a browser gets it compressed.
    @Test func filesAreClosed() async throws {
        let pair = try await AgentPair()
        let page = try await Page(pair.desk)
        for path in ["/", "/app.js", "/style.css", "/views/devices.js", "/i18n/en.json", "/mark.svg"] {
            let answer = try await AgentAPI.curl(["-i", "-H", "Accept-Encoding: identity", "\(page.origin)\(path)"])
            let head = answer.text.lowercased()
            #expect(answer.status == 200, "\(path)")
            for header in [
                "content-security-policy: default-src 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
                "frame-ancestors 'none'", "referrer-policy: no-referrer", "x-content-type-options: nosniff",
                "cross-origin-opener-policy: same-origin", "cross-origin-resource-policy: same-origin",
            ] {
                #expect(head.contains(header), "\(path): \(header)")
            }
            #expect(!head.contains("access-control-allow"), "\(path)")
            #expect(!head.contains("set-cookie"), "\(path)")
        }
        let whole = try await AgentAPI.curl(["-H", "Accept-Encoding: identity", "\(page.origin)/app.js"])
        let small = try await AgentAPI.curl([
            "-i", "-H", "Accept-Encoding: gzip", "--output", "/dev/null", "-D", "-", "\(page.origin)/app.js",
        ])
        #expect(small.text.lowercased().contains("content-encoding: gzip") && !whole.text.isEmpty)
        #expect(try await AgentAPI.curl(["--compressed", "\(page.origin)/app.js"]).text == whole.text)
        // The first view, as the browser gets it, with the words of the language that has the longest.
        func size(_ path: String) async throws -> Int {
            let head = try await AgentAPI.curl([
                "-H", "Accept-Encoding: gzip", "-o", "/dev/null", "-w", "%{size_download}\n%{http_code}", "\(page.origin)\(path)",
            ])
            #expect(head.status == 200, "\(path)")
            return Int(head.text.split(separator: "\n").last ?? "") ?? 1 << 30
        }
        var sum = 0
        for language in ["de", "en", "fr", "zh"] { sum = max(sum, try await size("/i18n/\(language).json")) }
        for path in [
            "/", "/app.js", "/dom.js", "/question.js", "/router.js", "/states.js", "/style.css", "/text.js", "/model/local.js",
            "/model/events.js", "/model/json.js", "/model/tabs.js", "/views/devices.js", "/views/requests.js", "/icons.svg", "/mark.svg",
        ] {
            sum += try await size(path)
        }
        #expect(sum < 50 << 10, "\(sum) bytes")
        for path in ["/views/", "/../agent.json", "/agent.json", "/i18n/..%2f..%2fagent.json", "/console.html"] {
            #expect(try await page.get(path).status == 404, "\(path)")
        }
    }

    @Test func keyUsedTwiceEndsBoth() async throws {
        let pair = try await AgentPair()
        var other = try await Page(pair.desk)
        try await other.signIn()
        var page = try await Page(pair.desk)
        try await page.signIn()
        let stream = try RelayProcess(
            ["-sN", "\(page.origin)/v1/events", "-H", page.bearer],
            executable: AgentAPI.executable,
            environment: [:]
        )
        _ = try await stream.line { $0.hasPrefix(":") }
        let second = try await page.post("/v1/console/sessions", #"{"key":"\#(page.key)"}"#)
        #expect(second.status == 401 && second.code == "keyUsedTwice")
        let first = try await page.get("/v1/devices", page.bearer)
        #expect(first.status == 401 && first.code == "keyUsedTwice")
        _ = await stream.finish()
        #expect(try await other.get("/v1/devices", other.bearer).status == 200, "the session of another key stays")
        let again = try await pair.desk.relay("console", "--print")
        #expect(again.error.contains { $0.contains("used twice") })
        #expect(!(try await pair.desk.relay("console", "--print")).error.contains { $0.contains("used twice") }, "it is said once")
        for key in ["", "AAAAAAAAAAAAAAAAAAAAAA", page.key + "A"] {
            let answer = try await page.post("/v1/console/sessions", #"{"key":"\#(key)"}"#)
            #expect(answer.status == 401 && answer.code == "keyInvalid")
        }
    }

    /// Each credential is good for one door.
    @Test func credentialsStayAtTheirDoor() async throws {
        let port = try FreePort.take()
        let pair = try await AgentPair("api: {listen: \"127.0.0.1:\(port)\"}")
        var page = try await Page(pair.desk)
        try await page.signIn()
        let made = try await AgentAPI.post(
            pair.desk,
            "/v1/tokens",
            #"{"name":"all","scopes":["devices:read","launch","call","commands","audit","files","share","webhooks","asks","grants"]}"#
        )
        let token = "Authorization: Bearer \(try #require((try made.json["token"] as? [String: Any])?["token"] as? String))"
        #expect(try await AgentAPI.curl(url: "http://127.0.0.1:\(port)/v1/devices", "-H", token).status == 200)
        for path in ["/v1", "/v1/devices", "/v1/events", "/v1/console/sessions"] {
            #expect(try await page.get(path).status == 401, "\(path) without a session")
            #expect(try await page.get(path, token).status == 401, "\(path) with a token")
            #expect(try await AgentAPI.curl(url: "http://127.0.0.1:\(port)\(path)", "-H", page.bearer).status == 401, "\(path) on TCP")
            #expect(try await AgentAPI.curl(pair.desk, path, "-H", page.bearer).status == 401, "\(path) on the socket")
        }
        // What only the command line does.
        for (path, body) in [("/v1/console/keys", "{}"), ("/v1/tokens", #"{"name":"x","scopes":["launch"]}"#)] {
            #expect(try await page.post(path, body, page.bearer).status == 403, "\(path)")
            #expect(try await AgentAPI.post(pair.desk, path, body, token).status == 403, "\(path) with a token")
        }
        let texts = #"{"language":"de","texts":["there is no such session"]}"#
        #expect(try await page.post("/v1/console/translations", texts).status == 401)
        #expect(try await AgentAPI.post(pair.desk, "/v1/console/translations", texts, token).status == 403)
        // What no token does.
        for path in ["/v1/console/sessions", "/v1/tokens"] {
            #expect(try await AgentAPI.curl(pair.desk, path, "-H", token).status == 403, "\(path)")
        }
        // The exchange is at the console alone.
        #expect(try await AgentAPI.post(pair.desk, "/v1/console/sessions", #"{"key":"x"}"#).status == 404)
    }

    /// The console shows the texts of answers in its own language.
    @Test func textsOfAnswersAreTranslated() async throws {
        let pair = try await AgentPair()
        var page = try await Page(pair.desk)
        try await page.signIn()
        let path = "/v1/console/translations"
        let refusal = try await page.get("/v1/commands/none", page.bearer).json["message"] as? String
        let english = ["there is no such session", "qwxz vbnm", "", try #require(refusal)]
        for (language, isForeign) in [("de", true), ("fr-CH", true), ("zh-Hans", true), ("en", false), ("zh-TW", false), ("-", false)] {
            let texts = try JSONEncoder().encode(["texts": english])
            let body =
                #"{"language":\#(try String(decoding: JSONEncoder().encode(language), as: UTF8.self)),"#
                + String(decoding: texts, as: UTF8.self).dropFirst()
            let answer = try await page.post(path, body, page.bearer)
            #expect(answer.status == 200, "\(language): \(answer.text)")
            let translated = try #require(answer.json["texts"] as? [String])
            #expect(translated.count == english.count && translated[1...2] == english[1...2], "\(language)")
            for index in [0, 3] { #expect((translated[index] != english[index]) == isForeign, "\(language): \(translated[index])") }
        }
        let many = String(repeating: #""a","#, count: 100) + #""a""#
        for wrong in [
            #"{"language":"de"}"#, #"{"texts":[]}"#, #"{"language":"de","texts":"a"}"#, #"{"language":"de","texts":[1]}"#,
            #"{"language":"\u0000","texts":[]}"#, #"{"language":"de","texts":[\#(many)]}"#, #"{"language":1,"texts":[]}"#, "[]",
        ] {
            #expect(try await page.post(path, wrong, page.bearer).status == 400, "\(wrong.prefix(60))")
        }
        // A long text stays as it is.
        let long = String(repeating: "there is no such session; ", count: 20_000)
        let answer = try await page.post(path, #"{"language":"de","texts":["\#(long)"]}"#, page.bearer)
        #expect(try answer.json["texts"] as? [String] == [long])
    }

    @Test func sessionEnds() async throws {
        let pair = try await AgentPair()
        var page = try await Page(pair.desk)
        try await page.signIn()
        let list = try await page.get("/v1/console/sessions", page.bearer).json["sessions"] as? [[String: Any]]
        #expect(list?.count == 1 && list?.first?["current"] as? Bool == true)
        let delete = ["-X", "DELETE", "-H", page.bearer, "-H", "Origin: \(page.origin)"]
        #expect(try await AgentAPI.curl(["\(page.origin)/v1/console/sessions/nothing"] + delete).status == 404)
        #expect(try await AgentAPI.curl(["\(page.origin)/v1/console/sessions/current"] + delete).status == 204)
        #expect(try await page.get("/v1/devices", page.bearer).status == 401)
        // Another agent has another port and knows no session.
        var next = try await Page(pair.desk)
        try await next.signIn()
        pair.agent.send(SIGTERM)
        _ = await pair.agent.finish()
        let agent = try await pair.desk.agent()
        let fresh = try await Page(pair.desk)
        #expect(try await fresh.get("/v1/devices", next.bearer).status == 401)
        agent.send(SIGTERM)
        _ = await agent.finish()
    }

    /// The whole way of a person, with a program in the place of the browser that reads what a browser reads.
    @Test func linkReachesTheBrowserByAFileOfThisUser() async throws {
        let pair = try await AgentPair()
        let folder = pair.desk.directory.appending(path: "bin")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let script = #"""
            #!/bin/sh
            file=${1#file://}
            stat -c %a "$file" > "\#(folder.path)/mode"
            tr '\0' ' ' < /proc/$$/cmdline > "\#(folder.path)/arguments"
            url=$(sed -n 's/.*url=\([^"]*\)".*/\1/p' "$file")
            origin=${url%%/#key=*}
            curl -s -o "\#(folder.path)/session" -H "Origin: $origin" -H 'Content-Type: application/json' \
                -d "{\"key\":\"${url##*#key=}\"}" "$origin/v1/console/sessions"
            """#
        let opener = folder.appending(path: "xdg-open")
        try script.write(to: opener, atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: opener.path)
        let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
        let environment = ["DISPLAY": ":99", "PATH": "\(folder.path):\(path)"]
        let opened = try await pair.desk.run(["console"], adding: environment)
        #expect(opened.status == 0, "\(opened.error)")
        #expect(opened.output.isEmpty)
        func read(_ name: String) throws -> String { try String(contentsOf: folder.appending(path: name), encoding: .utf8) }
        #expect(try read("mode") == "600\n")
        #expect(!(try read("arguments")).contains("key="))
        #expect(try JSON.object(try read("session"))["token"] is String)
        #expect(!FileManager.default.fileExists(atPath: pair.desk.home + "/console.html"))
        // Nobody takes the link; there is no display; there is no agent.
        let screenless = try await pair.desk.run(["console"], adding: ["DISPLAY": "", "WAYLAND_DISPLAY": ""])
        #expect(screenless.status == 1 && screenless.error.contains { $0.contains("relay console --print") })
        pair.agent.send(SIGTERM)
        _ = await pair.agent.finish()
        let missing = try await pair.desk.relay("console")
        #expect(missing.status == 5 && missing.error.contains { $0.contains("relay agent") })
        // Who opens it from a menu sees that in the browser.
        try #"""
        #!/bin/sh
        cat "${1#file://}" > "\#(folder.path)/page"
        """#.write(to: opener, atomically: false, encoding: .utf8)
        let fromMenu = try await pair.desk.run(["console"], adding: environment)
        #expect(fromMenu.status == 5)
        #expect(try read("page").contains("relay agent") && !read("page").contains("url="))
    }
}

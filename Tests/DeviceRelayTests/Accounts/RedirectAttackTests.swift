// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

/// Requests at the redirect address of an app: by pages, programs and issuers that want to end or take over its sign-in.
@Suite struct RedirectAttackTests {
    static let check = AuthorizationResponseCheck(
        path: "/signed-in",
        state: Secret("the-state"),
        issuer: "https://login.example",
        needsIssuer: true
    )
    static let good = "/signed-in?code=c%2Bd&state=the-state&iss=https%3A%2F%2Flogin.example"

    static func read(_ text: String) -> RedirectRequestReader.Result {
        var reader = RedirectRequestReader(authority: "127.0.0.1:4000")
        return reader.read(Array(text.utf8))
    }

    static func request(_ first: String = "GET /signed-in?x HTTP/1.1", host: String = "Host: 127.0.0.1:4000\r\n", more: String = "")
        -> String
    {
        "\(first)\r\n\(host)\(more)\r\n"
    }

    // MARK: The request

    @Test func requestIsReadInAnyPieces() {
        let bytes = Array(Self.request(more: "Accept: */*\r\n").utf8)
        for split in 0...bytes.count {
            var reader = RedirectRequestReader(authority: "127.0.0.1:4000")
            let first = reader.read(bytes[..<split])
            if split < bytes.count {
                #expect(first == .incomplete, "\(split)")
                #expect(reader.read(bytes[split...]) == .target("/signed-in?x"), "\(split)")
            } else {
                #expect(first == .target("/signed-in?x"))
            }
        }
        var reader = RedirectRequestReader(authority: "127.0.0.1:4000")
        for byte in bytes.dropLast() { #expect(reader.read([byte]) == .incomplete) }
        #expect(reader.read([0x0A]) == .target("/signed-in?x"))
    }

    @Test(
        arguments: [
            ("POST /signed-in HTTP/1.1", 405), ("HEAD /signed-in HTTP/1.1", 405), ("get /signed-in HTTP/1.1", 405),
            ("GET /signed-in", 400), ("GET /signed-in HTTP/2.0", 400), ("GET  HTTP/1.1", 400), ("GET http://127.0.0.1:4000/ HTTP/1.1", 400),
            ("GET /signed in HTTP/1.1", 400), ("GET /\u{301} HTTP/1.1", 400), ("", 400), ("\u{16}\u{3}\u{1}", 400),
            (" GET / HTTP/1.1", 400),
        ] as [(String, Int)]
    ) func invalidRequestLinesGetAnError(_ line: String, _ status: Int) {
        #expect(Self.read(Self.request(line)) == .invalid(status: status))
    }

    /// A name that leads to this machine may be another site's.
    @Test(arguments: [
        "", "Host: evil.example\r\n", "Host: 127.0.0.1\r\n", "Host: 127.0.0.1:4001\r\n", "Host: localhost:4000\r\n",
        "Host: 127.0.0.1:4000\r\nHost: evil.example\r\n", "Host : 127.0.0.1:4000\r\n", "X-Host: 127.0.0.1:4000\r\n",
    ]) func requestForAnotherHostGetsAnError(_ host: String) {
        #expect(Self.read(Self.request(host: host)) == .invalid(status: 400))
        #expect(Self.read(Self.request(host: "hOST:\t127.0.0.1:4000\r\n")) == .target("/signed-in?x"))
    }

    @Test func longRequestsAreBounded() {
        let padding = String(repeating: "a", count: 1 << 20)
        #expect(Self.read(Self.request(more: "X: \(padding)\r\n")) == .invalid(status: 431))
        #expect(Self.read(padding) == .invalid(status: 431))
        var reader = RedirectRequestReader(authority: "127.0.0.1:4000")
        var count = 0
        while reader.read(Array(repeating: 0x61, count: 1_000)) == .incomplete { count += 1_000 }
        #expect(count <= RedirectRequestReader.maximumBytes)
    }

    @Test(
        arguments: [
            ("", nil), ("Accept-Language: de-AT, en;q=0.5\r\n", "de-AT, en;q=0.5"),
            ("ACCEPT-LANGUAGE:\tzh\r\nAccept-Language: fr\r\n", "zh"),
            ("Accept-Language:\r\n", ""), ("X-Accept-Language: de\r\n", nil), ("Accept-Languages: de\r\n", nil),
            (" Accept-Language: de\r\n", nil),
        ] as [(String, String?)]
    ) func languagesAreThoseOfTheField(_ more: String, _ languages: String?) {
        var reader = RedirectRequestReader(authority: "127.0.0.1:4000")
        #expect(reader.read(Array(Self.request(more: more).utf8)) == .target("/signed-in?x"))
        #expect(reader.languages == languages)
    }

    // MARK: The response

    @Test func responseOfTheIssuerIsAccepted() {
        #expect(Self.check.outcome(of: Self.good) == .code(Secret("c+d")))
        #expect(Self.check.outcome(of: Self.good + "&session_state=x&scope=a+b&flag") == .code(Secret("c+d")))
        #expect(
            Self.check.outcome(of: Self.good.replacing("code=c%2Bd", with: "error=access_denied")) == .refused("access_denied")
        )
    }

    @Test(arguments: [
        // Another state.
        ("state=the-state", "state=the-statf"), ("state=the-state", "state="), ("state=the-state&", ""),
        ("state=the-state", "state=THE-STATE"),
        ("state=the-state", "state=the-state%00"), ("state=the-state", "state=the-state&state=the-state"),
        ("state=the-state", "st%61te=x&state=the-state"), ("the-state", "the%2dstat%C3%A9"),
        // Another issuer.
        ("login.example", "evil.example"), ("login.example", "login.example%2F"), ("login.example", "LOGIN.example"),
        ("&iss=https%3A%2F%2Flogin.example", ""), ("&iss=", "&iss=https%3A%2F%2Fevil.example&iss="),
        // Another code.
        ("code=c%2Bd", "code=a&code=b"), ("code=c%2Bd", "code=a&c%6Fde=b"), ("code=c%2Bd", "code="), ("code=c%2Bd&", ""),
        ("code=c%2Bd", "code=a&error=access_denied"), ("code=c%2Bd", "code=%zz"), ("code=c%2Bd", "code=%ff"),
        ("code=c%2Bd", "code=" + String(repeating: "c", count: 4_097)),
        ("code=c%2Bd", (0..<40).map { "x\($0)=y" }.joined(separator: "&") + "&code=a"),
    ]) func otherResponsesDoNotEndIt(_ old: String, _ new: String) {
        #expect(Self.check.outcome(of: Self.good.replacing(old, with: new)) == .other(status: 400))
    }

    @Test(arguments: ["/", "/signed-in/", "/signed-inx", "//signed-in", "/signed%2Din", "/SIGNED-IN", "/signed-in;x", "/favicon.ico", ""])
    func otherPathsAreNotFound(_ path: String) {
        #expect(Self.check.outcome(of: Self.good.replacing("/signed-in", with: path)) == .other(status: 404))
    }

    /// Not each issuer names itself. One that does must be right.
    @Test func issuerThatNeverNamesItselfMayBeMissing() {
        let check = AuthorizationResponseCheck(path: "/", state: Secret("s"), issuer: "https://login.example", needsIssuer: false)
        #expect(check.outcome(of: "/?code=c&state=s") == .code(Secret("c")))
        #expect(check.outcome(of: "/?code=c&state=s&iss=https://evil.example") == .other(status: 400))
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Foundation
import NIOCore
import RelayProtocol
import RelayTesting
import Testing

/// People who come to the relay while it is attacked: an owner signs in with a password, in a browser that did so before, and a device says
/// hello with a token about which another issuer is asked.
final class Arrivals: Sendable {
    private static let owner = "Cleo"
    private static let address = "127.0.0.3"

    let origin: String
    private let port: Int
    private let issuer: IssuerServer
    /// The owner has signed in with it before.
    private let browser: SignInBrowser
    private let tablet: Tablet

    /// Only one arrival at a time uses it.
    private struct Tablet: @unchecked Sendable { let endpoint: WireEndpoint }

    /// An issuer that takes its time, and a relay's settings that name it.
    static func issuer(in directory: URL) async throws -> (issuer: IssuerServer, arguments: [String]) {
        let issuer = try await IssuerServer()
        let (secret, file) = (directory.appending(path: "secret"), directory.appending(path: "issuers.json"))
        let isWritten = FileManager.default.createFile(
            atPath: secret.path,
            contents: Data("a:secret word".utf8),
            attributes: [.posixPermissions: 0o600]
        )
        #expect(isWritten)
        let entry = #"{"issuer":"\#(issuer.url)","audience":"the-relay","mode":"introspection","autoProvision":true"#
        let credentials = #""clientID":"relay","clientSecretFile":"\#(secret.path)""#
        try Data(#"{"issuers":[\#(entry),\#(credentials)}]}"#.utf8).write(to: file)
        return (issuer, ["--issuers-file", file.path])
    }

    init(at relayd: RelaydProcess, issuer: IssuerServer) async throws {
        (origin, port) = (relayd.origin, relayd.port)
        self.issuer = issuer
        _ = try await relayd.run("account", "add", Self.owner)
        let browser = SignInBrowser(origin: origin)
        // The link leads to the port with TLS, which other machines can reach. The plain port serves the same page.
        let link = try #require(URLComponents(string: try await relayd.run("account", "set-up", Self.owner)))
        try await browser.setUp("\(origin)\(link.path)?\(link.query ?? "")")
        self.browser = browser
        let tablet = WireEndpoint("Tablet", at: relayd)
        tablet.token = Self.token(of: issuer)
        try await tablet.connect()
        await tablet.disconnect()
        self.tablet = Tablet(endpoint: tablet)
        issuer.setDelay(.milliseconds(50))
    }

    private static func token(of issuer: IssuerServer) -> String {
        let token = "token-\(UUID().uuidString)"
        issuer.setClaims(IssuerServer.claims(), of: token)
        return token
    }

    /// Each is let in at the first try.
    func come() async throws {
        _ = try await browser.get("/auth/account")
        _ = try await browser.post("/auth/logout", [:])
        let page = try await browser.signIn(Self.owner)
        #expect(page.status == 303, "signing in")
        let (tablet, port) = (tablet, port)
        tablet.endpoint.token = Self.token(of: issuer)
        try await onThread {
            let socket = try RawWebSocket(port: port, from: Self.address)
            try socket.greet(as: tablet.endpoint, role: .client)
            socket.socket.reset()
        }
    }
}
#endif

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import NIOPosix
import RelayProtocol
import RelayTesting
import Testing

@testable import DeviceRelay

/// Another user of the machine during a sign-in with a browser: he reads the arguments of the program that opens the browser, and connects to
/// the port that the app listens at. And a relay that sends the device to its own ports.
@Suite(.serialized, .timeLimit(.minutes(10))) struct SharedMachineAttackTests {
    private static let check = AuthorizationResponseCheck(
        path: LoopbackRedirect.path,
        state: Secret("s"),
        issuer: "https://x",
        needsIssuer: false
    )

    @Test func addressOfTheBrowserHoldsNoSecretOfTheSignInAndWorksOnce() async throws {
        let (bench, _, relay) = try await DeviceGrantTests.bench()
        let endpoint = try bench.endpoint(relay: relay)
        let (addresses, statuses) = (Shared<[String]>([]), Shared<[Int]>([]))
        let provider = BrowserAccessTokenProvider(registeringAs: "Player") { url in
            addresses.withLock { $0.append(url.absoluteString) }
            // The end of the sign-in cancels this task, but no browser.
            try await Task {
                for _ in 0..<2 {
                    let status = try await SignInBrowser.request("GET", url.absoluteString).status
                    statuses.withLock { $0.append(status) }
                }
            }.value
        }
        #expect(try await tokenError(provider, endpoint) == .declined)
        #expect(statuses.value == [302, 410])
        let address = try #require(addresses.value.first)
        #expect(address.wholeMatch(of: /http:\/\/127\.0\.0\.1:[0-9]+\/begin\/[A-Za-z0-9_-]{22}/) != nil)
        #expect(try endpoint.tokens.read() == nil)
    }

    @Test func guessedAddressesLeadNowhere() async throws {
        let redirect = try await LoopbackRedirect.listen(for: Self.check, timeout: 600_000)
        let authorization = try #require(URL(string: "https://issuer.example/page"))
        let begin = try #require(redirect.begin(at: authorization))
        for guess in [
            begin.absoluteString + "A", String(begin.absoluteString.dropLast()), begin.absoluteString + "?x", redirect.uri + "/begin/",
        ] {
            #expect(try await SignInBrowser.request("GET", guess).status == 404, "\(guess)")
        }
        #expect(try await SignInBrowser.request("GET", begin.absoluteString).location == "https://issuer.example/page")
        redirect.stop()
    }

    /// Silent connections of another program do not keep the browser out.
    @Test func silentConnectionsMakeRoom() async throws {
        let redirect = try await LoopbackRedirect.listen(for: Self.check, timeout: 600_000)
        let port = try BrowserSignInTests.parts(redirect.uri + "?x").port
        var silent: [any Channel] = []
        for _ in 0..<(3 * LoopbackRedirect.maximumConnections) {
            silent.append(
                try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton).connect(host: "127.0.0.1", port: port).get()
            )
        }
        async let page = {
            do {
                return try await SignInBrowser.request("GET", redirect.uri + "?code=c&state=s")
            } catch {
                redirect.stop()
                throw error
            }
        }()
        #expect(try await redirect.response() == .code(Secret("c")))
        await redirect.tell(.signedIn)
        #expect(try await page.text.contains("signed in"))
        // The oldest were closed for the others.
        try await silent[0].closeFuture.get()
        for channel in silent { try? await channel.close() }
    }

    #if os(Linux)
    @Test func tableOfConnectionsNamesTheUser() {
        let table = """
              sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
               0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0
               1: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 2 1 0 20 4 30 10 -1
               2: 0100007F:C002 0100007F:1F90 05 00000000:00000000 00:00000000 00000000     0        0 0 1 0 20 4 30 10 -1
               3: 0200000A:C003 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1003        0 2 1 0 20 4 30 10 -1
               4: 0000000000000000FFFF00000100007F:C004 0000000000000000FFFF00000100007F:1F90 01 0:0 0:0 0  1004 0 2
               5: x y
            """
        let users = (0xC001...0xC006).map { LoopbackPeer.user(of: $0, connectedTo: 0x1F90, in: Array(table.utf8)) }
        #expect(users == [1001, nil, 1003, 1004, nil, nil])
        #expect(LoopbackPeer.user(of: 0xC001, connectedTo: 0x1F91, in: Array(table.utf8)) == nil)
        // In pieces of any size.
        for size in [1, 7, 64, 4_096] {
            var rest = Array(table.utf8)[...]
            let user = LoopbackPeer.user(of: 0xC004, connectedTo: 0x1F90) {
                defer { rest = rest.dropFirst(size) }
                return Array(rest.prefix(size))
            }
            #expect(user == 1004)
        }
    }

    @Test(
        .enabled(
            if: getuid() == 0 && FileManager.default.isExecutableFile(atPath: "/usr/bin/setpriv"),
            "needs root, to run a program as another user"
        )
    ) func requestsOfOtherUsersAreRefused() async throws {
        let redirect = try await LoopbackRedirect.listen(for: Self.check, timeout: 600_000)
        let authorization = try #require(URL(string: "https://issuer.example/page"))
        let begin = try #require(redirect.begin(at: authorization))
        for target in [begin.absoluteString, redirect.uri + "?code=c&state=s"] {
            let other = Process()
            other.executableURL = URL(filePath: "/usr/bin/setpriv")
            let script = """
                import sys, urllib.request as r, urllib.error as e
                try:
                    r.urlopen(sys.argv[1], timeout=10)
                    print("answered")
                except e.HTTPError as x: print(x.code)
                except OSError: print("redirected, or kept")
                """
            other.arguments = ["--reuid=65534", "--clear-groups", "/usr/bin/python3", "-c", script, target]
            let output = try ProcessStart.reading(other)
            let answer = try await RelaydProcess.lines(of: output, 1)
            #expect(answer == ["403"])
        }
        // Neither used anything up.
        #expect(try await SignInBrowser.request("GET", begin.absoluteString).status == 302)
        async let page = SignInBrowser.request("GET", redirect.uri + "?code=d&state=s")
        #expect(try await redirect.response() == .code(Secret("d")))
        redirect.stop()
        _ = try? await page
    }
    #endif

    @Test(arguments: [
        "https://127.0.0.1:8443/x", "http://127.0.0.1/x", "https://localhost/x", "https://app.localhost/x", "https://127.1/x",
        "https://0x7f000001/x", "https://2130706433/x", "https://[::1]/x", "https://[::ffff:127.0.0.1]/x", "https://0.0.0.0/x",
        "https://[::]/x",
    ]) func relayElsewhereNamesNoPortOfThisDevice(_ text: String) throws {
        let relay = try RelayAddress(try #require(URL(string: "https://relay.example")))
        #expect(ServerURL(text, namedBy: relay) == nil)
        #expect(ServerURL.page(text, namedBy: relay) == nil)
        #expect(ServerURL("https://issuer.example/x", namedBy: relay) != nil)
    }

    @Test func relayOfThisDeviceNamesOtherServersOfIt() throws {
        let relay = try RelayAddress(try #require(URL(string: "http://127.0.0.1:8080")))
        #expect(ServerURL("http://127.0.0.1:8090/x", namedBy: relay) != nil)
        #expect(ServerURL.page("http://localhost:8090/x", namedBy: relay) != nil)
    }
}

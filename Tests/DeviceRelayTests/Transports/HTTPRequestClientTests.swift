// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import NIOCore
import NIOHTTP1
import RelayProtocol
import RelayTesting
import Testing
import X509

@Suite struct HTTPRequestClientTests {
    /// What one request to a server ends with; the server ends too.
    static func result(
        _ server: TestRelayServer,
        scheme: String = "http",
        relay: RelayID? = nil,
        authorities: [Certificate] = [],
        timeout: Int64 = 10_000,
        request: HTTPRequest = HTTPRequest(.GET, "/")
    ) async throws -> Result<HTTPAnswer, RequestFailure> {
        let address = try RelayAddress(try #require(URL(string: "\(scheme)://127.0.0.1:\(server.port)")))
        let result: Result<HTTPAnswer, RequestFailure>
        do throws(RequestFailure) {
            let client = HTTPRequestClient(timeout: timeout)
            result = .success(
                try await client.send(request, to: address, trust: RelayTrust(relay: relay, authorities: .certificates(authorities)))
            )
        } catch {
            result = .failure(error)
        }
        await server.stop()
        return result
    }

    static func failure(_ result: Result<HTTPAnswer, RequestFailure>) -> RequestFailure? {
        if case .failure(let failure) = result { failure } else { nil }
    }

    static func failure(of text: String) async throws -> RequestFailure? {
        failure(try await result(try await TestRelayServer(.plain, .raw(text))))
    }

    @Test func requestIsSentAndItsResponseReturned() async throws {
        let heads = Shared<[String]>([])
        let server = try await TestRelayServer(
            .plain,
            .answers { head in
                heads.withLock { $0.append(head) }
                return "HTTP/1.1 418 Teapot\r\nContent-Length: 5\r\nX-Kind: pot\r\n\r\nshort"
            }
        )
        let request = HTTPRequest(.POST, "/a/b", headers: ["X-Name": "value"], body: Array("form".utf8))
        let answer = try await Self.result(server, request: request).get()
        #expect(answer.status == 418)
        #expect(answer.headers["X-Kind"] == ["pot"])
        #expect(String(decoding: answer.body, as: UTF8.self) == "short")
        let head = try #require(heads.value.first)
        #expect(head.hasPrefix("POST /a/b HTTP/1.1\r\n"))
        for line in ["X-Name: value", "Host: 127.0.0.1:\(server.port)", "Connection: close", "Content-Length: 4"] {
            #expect(head.contains("\r\n\(line)\r\n"))
        }
    }

    /// The address that is given is dialled, whatever the name leads to, and the head alone is an answer.
    @Test func addressIsDialledInPlaceOfTheName() async throws {
        let heads = Shared<[String]>([])
        let server = try await TestRelayServer(
            .plain,
            .answers { head in
                heads.withLock { $0.append(head) }
                return "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nshort"
            }
        )
        let name = try RelayAddress(try #require(URL(string: "http://nowhere.invalid:\(server.port)")), allowsPlaintext: true)
        let place = try SocketAddress(ipAddress: "127.0.0.1", port: server.port)
        let trust = RelayTrust(relay: nil, authorities: .certificates([]))
        let answer = try await HTTPRequestClient(timeout: 10_000, maximumBodyBytes: nil)
            .send(HTTPRequest(.POST, "/"), to: name, at: place, trust: trust)
        #expect(answer.status == 200 && answer.body.isEmpty)
        #expect(heads.value.first?.contains("\r\nHost: nowhere.invalid:\(server.port)\r\n") == true)
        await server.stop()
    }

    @Test func redirectIsNotFollowed() async throws {
        let answer = try await Self.result(
            try await TestRelayServer(.plain, .raw("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"))
        ).get()
        #expect(answer.status == 302)
    }

    @Test(arguments: [
        ("HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n" + String(repeating: "a", count: 70_000), "the answer is too long"),
        ("HTTP/1.1 200 OK\r\n\r\n" + String(repeating: "a", count: 65_537), "the answer is too long"),
        ("220 mail.example ESMTP\r\n", "the answer is not HTTP"),
        ("HTTP/1.1 200 OK\r\nX: " + String(repeating: "a", count: 100_000), "the answer is not HTTP"),
    ]) func invalidResponseFails(_ text: String, _ what: String) async throws {
        #expect(try await Self.failure(of: text) == .failed(.protocolError(what)))
    }

    @Test func longestResponseIsAccepted() async throws {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n" + String(repeating: "a", count: 65_536)
        #expect(try await Self.result(try await TestRelayServer(.plain, .raw(text))).get().body.count == 65_536)
    }

    @Test func headerInjectionIsRejected() async throws {
        let server = try await TestRelayServer(.plain, .raw("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
        let request = HTTPRequest(.GET, "/", headers: ["X": "a\r\nY: b"])
        #expect(Self.failure(try await Self.result(server, request: request)) != nil)
    }

    @Test func silentServerTimesOut() async throws {
        #expect(Self.failure(try await Self.result(try await TestRelayServer(.plain, .silent), timeout: 200)) == .failed(.timedOut))
    }

    @Test func closedPortIsUnreachable() async throws {
        let server = try await TestRelayServer(.plain, .silent, port: FreePort.take())
        await server.stop()
        #expect(Self.failure(try await Self.result(server)) == .failed(.unreachable("nothing answers there")))
    }

    @Test(arguments: TestRelayServer.HangUp.allCases) func closedConnectionIsReportedAsHungUp(_ hangUp: TestRelayServer.HangUp) async throws
    {
        #expect(Self.failure(try await Self.result(try await TestRelayServer(.plain, .hangsUp(hangUp)))) == .failed(.hungUp))
    }

    @Test(arguments: ["HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "HTTP/1.1 20"])
    func truncatedResponseIsReportedAsHungUp(_ text: String) async throws {
        #expect(try await Self.failure(of: text) == .failed(.hungUp))
    }

    @Test func cancellingClosesTheConnection() async throws {
        let (arrived, continuation) = AsyncStream.makeStream(of: Void.self)
        let server = try await TestRelayServer(
            .plain,
            .answers { _ in
                continuation.yield()
                return nil
            }
        )
        let address = try RelayAddress(try #require(URL(string: "http://127.0.0.1:\(server.port)")))
        let task = Task { () -> RequestFailure? in
            do throws(RequestFailure) {
                _ = try await HTTPRequestClient().send(HTTPRequest(.GET, "/"), to: address, trust: RelayTrust(relay: nil))
                return nil
            } catch {
                return error
            }
        }
        for await _ in arrived { break }
        task.cancel()
        #expect(await task.value == .cancelled)
        await server.allConnectionsClosed()
        await server.stop()
    }

    @Test func onlyThePinnedKeyIsTrusted() async throws {
        let certificate = try TestCertificate(host: "another.example")
        let answer = TestRelayServer.Behaviour.answers { _ in "HTTP/1.1 204 No Content\r\n\r\n" }
        let right = try await TestRelayServer(certificate.security, answer)
        #expect(try await Self.result(right, scheme: "https", relay: certificate.relayID).get().status == 204)
        let other = try await TestRelayServer(certificate.security, answer)
        #expect(
            Self.failure(try await Self.result(other, scheme: "https", relay: MachineBench.relay))
                == .failed(.untrusted(.otherKey(certificate.relayID)))
        )
        let bare = try await TestRelayServer(.tlsWithoutCertificate, answer)
        #expect(
            Self.failure(try await Self.result(bare, scheme: "https", relay: MachineBench.relay)) == .failed(.protocolError("TLS failed"))
        )
    }

    @Test(
        arguments: [
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777_000), ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Thu, 29 Feb 2024 23:59:59 GMT", 1_709_251_199_000), ("Fri, 01 Mar 2024 00:00:00 GMT", 1_709_251_200_000),
            ("Mon, 01 Mar 2100 00:00:00 GMT", 4_107_542_400_000), ("Sunday, 06-Nov-94 08:49:37 GMT", nil),
            ("Sun, 06 Nov 1994 08:49:37 UTC", nil),
            ("Sun, 06 Nov 1994 24:49:37 GMT", nil), ("Sun, +6 Nov 1994 08:49:37 GMT", nil), ("Sun, 06 Foo 1994 08:49:37 GMT", nil),
            ("", nil),
            ("Sun, 06 Nov 1994 08:4937  GMT", nil),
        ] as [(String, Int64?)]
    ) func dateHeaderIsParsed(_ text: String, _ time: Int64?) async throws {
        let server = try await TestRelayServer(.plain, .raw("HTTP/1.1 200 OK\r\nDate: \(text)\r\nContent-Length: 0\r\n\r\n"))
        #expect(try await Self.result(server).get().date == time)
    }
}

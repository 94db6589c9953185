// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import RelayAgent

/// What a token may do, and the settings of the API, without processes.
@Suite struct APIAccessTests {
    private func token(
        _ scopes: [APIScope],
        devices: [String]? = nil,
        schemes: [String]? = nil,
        services: [String]? = nil
    ) throws -> Principal {
        .token(
            try APIToken(name: "t", scopes: scopes.map(\.rawValue), devices: devices, schemes: schemes, services: services, life: nil)
        )
    }

    private static let device = String(repeating: "a", count: 52)
    private static let other = String(repeating: "b", count: 51) + "a"

    @Test func ownerMayDoEverything() throws {
        for scope in APIScope.allCases { try Principal.owner.require(scope, .init(device: Self.device, schemes: ["x"], service: "files")) }
        try Principal.owner.requireOwner()
    }

    @Test(arguments: APIScope.allCases) func tokenHasItsScopesOnly(scope: APIScope) throws {
        let token = try token([scope])
        for other in APIScope.allCases {
            if other == scope { try token.require(other) } else { #expect(throws: APIRefusal.self) { try token.require(other) } }
        }
        #expect(throws: APIRefusal.self) { try token.requireOwner() }
    }

    @Test func limitsHold() throws {
        let token = try token([.launch, .call], devices: [Self.device], schemes: ["HTTPS", "x-film"], services: ["photos"])
        try token.require(.launch, .init(device: Self.device, schemes: ["https", "x-film"]))
        try token.require(.call, .init(device: Self.device, service: "photos"))
        #expect(token.sees(Self.device) && !token.sees(Self.other))
        for use: Principal.Use in [
            .init(device: Self.other, schemes: ["https"]), .init(device: Self.device, schemes: ["https", "http"]),
            .init(device: Self.device, schemes: ["x-films"]),
        ] { #expect(throws: APIRefusal.self) { try token.require(.launch, use) } }
        for service in ["ping", "Photos", "photos ", "files", "share"] {
            #expect(throws: APIRefusal.self) { try token.require(.call, .init(device: Self.device, service: service)) }
        }
        // Without a limit, all but the services with scopes of their own.
        let free = try self.token([.call])
        try free.require(.call, .init(device: Self.other, service: "ping"))
        for service in ["files", "share"] {
            #expect(throws: APIRefusal.self) { try free.require(.call, .init(device: Self.other, service: service)) }
        }
    }

    @Test func badTokensAreRefused() {
        let cases: [(name: String, scopes: [String], devices: [String]?, schemes: [String]?, services: [String]?)] = [
            ("", ["launch"], nil, nil, nil), ("a\u{0}b", ["launch"], nil, nil, nil),
            (String(repeating: "n", count: 65), ["launch"], nil, nil, nil),
            ("n", [], nil, nil, nil), ("n", ["Launch"], nil, nil, nil), ("n", ["devices:write"], nil, nil, nil),
            ("n", ["launch"], ["TV"], nil, nil), ("n", ["launch"], nil, ["1x"], nil), ("n", ["launch"], nil, ["x:"], nil),
            ("n", ["call"], nil, nil, ["files"]),
        ]
        for one in cases {
            #expect(throws: AgentError.self, "\(one)") {
                try APIToken(
                    name: one.name,
                    scopes: one.scopes,
                    devices: one.devices,
                    schemes: one.schemes,
                    services: one.services,
                    life: nil
                )
            }
        }
    }

    @Test func secretsAreLongAndNew() {
        let all = Set((0..<100).map { _ in APIToken.secret().text })
        #expect(all.count == 100 && all.allSatisfy { $0.utf8.starts(with: "drt_".utf8) && $0.utf8.count == 47 })
    }

    @Test func lifesAreRead() {
        #expect(LifeText.duration("90s") == .seconds(90) && LifeText.duration("30d") == .seconds(2_592_000))
        #expect(LifeText.duration("1y") == .seconds(365 * 86_400))
        for bad in ["", "1", "y", "0d", "-1d", "2y", "1.5h", "9999999999999999999d", "1 d", "1D"] {
            #expect(LifeText.duration(bad) == nil, "\(bad)")
        }
    }

    @Test func listenersAreAddresses() throws {
        let plain = try #require(APIListener("127.0.0.1:7800"))
        #expect(plain.isLoopback && plain.serves("127.0.0.1:7800"))
        for host in [
            "", "127.0.0.1", "127.0.0.1:7801", "127.0.0.2:7800", "localhost:7800", "evil.example:7800", "[::1]:7800", "127.1:7800",
        ] {
            #expect(!plain.serves(host), "\(host)")
        }
        let every = try #require(APIListener("0.0.0.0:80"))
        #expect(every.serves("192.0.2.7") && every.serves("192.0.2.7:80") && !every.serves("evil.example"))
        #expect(APIListener("[::1]:7800")?.address == "[::1]:7800")
        #expect(APIListener("192.0.2.1:80")?.isLoopback == false)
        for bad in ["", "7800", "localhost:7800", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "127.1:7800", ":7800", "[::1:7800"] {
            #expect(APIListener(bad) == nil, "\(bad)")
        }
    }

    @Test func eventsAreKeptForReaders() throws {
        let log = EventLog()
        #expect(log.last == 0 && log.events(after: 0)?.isEmpty == true && log.events(after: 1) == nil)
        for number in 1...(3 * EventLog.kept) { log.add(.command, device: nil, command: nil, json: "\(number)") }
        let last = log.last
        #expect(last == Int64(3 * EventLog.kept))
        #expect(log.events(after: last)?.isEmpty == true)
        #expect(log.events(after: last - 2)?.map(\.json) == ["\(last - 1)", "\(last)"])
        #expect(log.events(after: last - Int64(EventLog.kept))?.count == EventLog.kept)
        #expect(log.events(after: last - Int64(EventLog.kept) - 1) == nil)
        #expect(log.events(after: last + 1) == nil)
    }

    @Test func auditOfOneDisplacesNoOther() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "audit-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        defer { try? FileManager.default.removeItem(at: folder) }
        let limit = 100
        let store = try AgentStore(Home(folder.path), auditLimit: limit)
        try await store.audit("owner", "launch", device: nil, subject: "https", answer: "stored")
        for _ in 0..<(3 * limit) {
            try await store.audit("token:a", "launch", device: "d", subject: "https", answer: "stored")
        }
        #expect((limit..<(limit + AgentStore.auditBatch)).contains(try await store.auditCount(of: "token:a")))
        #expect(try await store.auditCount(of: "owner") == 1)
        // Tokens are found by their digest alone, and not after their end.
        let (text, digest) = APIToken.secret()
        let token = try APIToken(name: "player", scopes: ["launch"], devices: nil, schemes: ["https"], services: nil, life: nil)
        try await store.add(token, digest: digest)
        #expect(try await store.token(APIToken.digest(of: text))?.schemes == ["https"])
        #expect(try await store.token(APIToken.digest(of: text + "x")) == nil)
        await #expect(throws: AgentError.self) { try await store.add(token, digest: digest) }
        #expect(try await store.removeToken("player"))
        #expect(!(try await store.removeToken("player")))
        #expect(try await store.token(digest) == nil)
    }
}

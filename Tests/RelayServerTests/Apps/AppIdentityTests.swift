// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

/// Cross-device app identities and their credentials.
@Suite struct AppIdentityTests {
    private func registry(_ store: any RelayStore, _ key: RelayKey = RelayKey(), texts: [String] = []) -> AppRegistry {
        AppRegistry(
            store: store,
            key: key,
            now: { Milliseconds(clamping: 1_000) },
            // The name does not exist, so that no server has files.
            proof: DomainProof { _ in texts.map { Array($0.utf8) } }
        )
    }

    private let credential = StoredCredential.webPush(key: Secret(StoredCredential.newSigningKey()), contact: "mailto:me@example.org")

    @Test(arguments: ["apps.example.org", "EXAMPLE.org", "a-b.example", "1.example"]) func domainsAreIdentities(_ text: String) {
        #expect(AppIdentity.domain(text) == text.lowercased())
    }

    @Test(arguments: [
        "", "localhost", "default", "example.org/path", "https://example.org", "-a.example", "a-.example", "a..example", ".example",
        "example.",
        "127.0.0.1", "\u{212A}.example", "a b.example", "e\u{301}.example", "example.org:443",
        String(repeating: "a", count: 64) + ".example",
    ])
    func otherTextsAreNoIdentities(_ text: String) { #expect(AppIdentity.domain(text) == nil) }

    @Test func appsAreParsed() {
        #expect(AppIdentity.App(parsing: "ios=org.example.player") == .init(.ios, id: "org.example.player"))
        #expect(AppIdentity.App(parsing: "web=a=b")?.id == "a=b")
        for text in ["", "ios", "ios=", "=a", "os2=a", "IOS=a", "ios=a b", "ios=\u{E9}", "ios=" + String(repeating: "a", count: 201)] {
            #expect(AppIdentity.App(parsing: text) == nil, "\(text)")
        }
    }

    @Test func anIdentityHasAtMostTenAppsForEachPlatform() async throws {
        let registry = registry(try SQLiteStore())
        let apps = (0..<10).map { AppIdentity.App(.ios, id: "app\($0)") }
        #expect(try await registry.add("apps.example", apps).apps.count == 10)
        await #expect(throws: AppRegistry.Failure.self) { try await registry.add("apps.example", [.init(.ios, id: "app10")]) }
        #expect(try await registry.add("apps.example", [.init(.android, id: "app10")]).apps.count == 11)
    }

    @Test func anAppBelongsToOneIdentity() async throws {
        let registry = registry(try SQLiteStore())
        let app = AppIdentity.App(.ios, id: "player")
        _ = try await registry.add("one.example", [app])
        await #expect(throws: AppRegistry.Failure.self) { try await registry.add("two.example", [app]) }
        #expect(try await registry.remove("one.example", [app])?.apps == [])
        #expect(try await registry.add("two.example", [app]).apps == ["ios=player"])
    }

    @Test func newAppsHaveToBeProvenAgain() async throws {
        let (store, key) = (try SQLiteStore(), RelayKey())
        let record = try #require(try await registry(store, key).add("apps.invalid", [.init(.ios, id: "player")]).record)
        await #expect(throws: AppRegistry.Failure.self) { try await registry(store, key).verify("apps.invalid") }
        await #expect(throws: AppRegistry.Failure.self) { try await registry(store, key, texts: [record + "x"]).verify("apps.invalid") }
        let proven = registry(store, key, texts: ["v=spf1 -all", record])
        let (app, way) = try await proven.verify("apps.invalid")
        #expect(app.verified == 1_000 && way == .dns)
        #expect(try await proven.add("apps.invalid", [.init(.ios, id: "player")]).verified == 1_000)
        // A new app has to be proven, and the proven ones stay so.
        let more = try await proven.add("apps.invalid", [.init(.android, id: "player")])
        #expect(more.verified == 1_000 && more.unproven == ["android=player"])
        // A proof that is gone counts no more.
        _ = try await proven.verify("apps.invalid")
        await #expect(throws: AppRegistry.Failure.self) { try await registry(store, key).verify("apps.invalid") }
        #expect(try await proven.list().map(\.verified) == [nil, nil])
    }

    @Test func newAppDoesNotStopThePushesOfProvenOnes() async throws {
        let (store, key) = (try SQLiteStore(), RelayKey())
        let record = try #require(try await registry(store, key).add("apps.invalid", [.init(.ios, id: "player")]).record)
        let registry = registry(store, key, texts: [record])
        _ = try await registry.add(credential, to: "apps.invalid")
        _ = try await registry.verify("apps.invalid")
        _ = try await registry.add("apps.invalid", [.init(.ios, id: "recorder")])
        #expect(try await registry.usableCredentials().map { $0.identity.apps.map(\.id) } == [["player"]])
        _ = try await registry.verify("apps.invalid")
        #expect(try await registry.usableCredentials().map { $0.identity.apps.map(\.id) } == [["player", "recorder"]])
        _ = try await registry.remove("apps.invalid", [.init(.ios, id: "player")])
        #expect(try await registry.usableCredentials().map { $0.identity.apps.map(\.id) } == [["recorder"]])
    }

    @Test func credentialsOfAProvenDomainAreUsed() async throws {
        let (store, key) = (try SQLiteStore(), RelayKey())
        let record = try #require(try await registry(store, key).add("apps.invalid", []).record)
        let registry = registry(store, key, texts: [record])
        _ = try await registry.add(credential, to: "apps.invalid")
        #expect(try await registry.usableCredentials().isEmpty)
        _ = try await registry.verify("apps.invalid")
        #expect(try await registry.usableCredentials().map(\.credential) == [credential])
        #expect(try await registry.remove("apps.invalid", []) == nil)
        #expect(try await registry.usableCredentials().isEmpty)
    }

    @Test func defaultIdentityNeedsNoProof() async throws {
        let registry = registry(try SQLiteStore())
        #expect(try await registry.list().map(\.id) == ["default"])
        for _ in 0..<10 { _ = try await registry.add(credential, to: "default") }
        await #expect(throws: AppRegistry.Failure.self) { try await registry.add(credential, to: "default") }
        #expect(try await registry.usableCredentials().count == 10)
        await #expect(throws: AppRegistry.Failure.self) { try await registry.add(credential, to: "unknown.example") }
        await #expect(throws: AppRegistry.Failure.self) { try await registry.removeCredential("unknown", of: "default") }
        let id = try #require(try await registry.list().first?.credentials.first?.id)
        #expect(try await registry.removeCredential(id, of: "default").credentials.count == 9)
    }

    @Test func credentialsOpenWithTheKeyThatSealedThemAlone() async throws {
        let (store, key) = (try SQLiteStore(), RelayKey())
        _ = try await registry(store, key).add(credential, to: "default")
        #expect(try await registry(store).usableCredentials().isEmpty)
        #expect(try await registry(store, key).usableCredentials().count == 1)
        let sealed = try key.seal([1, 2, 3], label: "one")
        #expect(key.open(sealed, label: "one") == [1, 2, 3])
        #expect(key.open(sealed, label: "other") == nil)
        #expect(key.open(Array(sealed.dropLast()), label: "one") == nil && key.open([], label: "one") == nil)
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct TargetResolutionTests {
    private func uri(_ text: String = "https://films.example/42") throws -> LaunchURI { try LaunchURI(text) }
    private func id(_ number: UInt8) throws -> EndpointID { try DirectorySamples.record(number, on: 1).endpointID }
    private func device(_ number: UInt8 = 1) throws -> RemoteSystemConnectionRequest {
        RemoteSystemConnectionRequest(systemID: try DirectorySamples.system(number))
    }

    @Test func onlyAppOfTheSchemeIsChosen() throws {
        let directory = DeviceDirectory(
            try DirectorySamples.endpoint(1, on: 1, apps: ["mail"], schemes: ["mailto"]),
            try DirectorySamples.endpoint(2, on: 1, apps: ["web"], schemes: ["http", "https"]),
            try DirectorySamples.endpoint(3, on: 2, apps: ["other"], schemes: ["https"])
        )
        let resolved = try directory.resolve(try uri("HTTPS://films.example"), on: try device())
        #expect(resolved.target == ResolvedTarget(endpoint: try id(2), appID: "web"))
        #expect(!resolved.isFallback)
    }

    @Test func preferenceWinsOverDefaultAndTiesAreAmbiguous() throws {
        var directory = DeviceDirectory(
            try DirectorySamples.endpoint(1, on: 1, apps: ["a"], schemes: ["https"], presence: .off),
            try DirectorySamples.endpoint(2, on: 1, apps: ["b"], schemes: ["https"])
        )
        func resolve(_ preferred: [String] = []) throws -> String {
            try directory.resolve(try uri(), preferredAppIDs: preferred, on: try device()).target.appID
        }
        #expect(throws: TargetError.ambiguous(appIDs: ["a", "b"])) { try resolve() }
        #expect(throws: TargetError.ambiguous(appIDs: ["a", "b"])) { try resolve(["missing"]) }
        // A preference counts more than presence.
        #expect(try resolve(["missing", "a", "b"]) == "a")
        directory.add(try DirectorySamples.endpoint(3, on: 1, apps: ["c"], defaults: ["https"], presence: .off))
        #expect(try resolve() == "c")
        #expect(try resolve(["b"]) == "b")
        directory.add(try DirectorySamples.endpoint(4, on: 1, apps: ["d"], defaults: ["https"]))
        #expect(throws: TargetError.ambiguous(appIDs: ["a", "b", "c", "d"])) { try resolve() }
    }

    @Test func reachableEndpointOfAnAppIsChosen() throws {
        let sorted = try [UInt8(1), 2].sorted { try id($0) < id($1) }
        for reachable in sorted {
            let directory = DeviceDirectory(
                try DirectorySamples.endpoint(
                    1,
                    on: 1,
                    schemes: ["https"],
                    services: ["s"],
                    presence: reachable == 1 ? .available : .asleep
                ),
                try DirectorySamples.endpoint(
                    2,
                    on: 1,
                    schemes: ["https"],
                    services: ["s"],
                    presence: reachable == 2 ? .available : .asleep
                )
            )
            let expected = ResolvedTarget(endpoint: try id(reachable), appID: "app")
            #expect(try directory.resolve(try uri(), on: try device()).target == expected)
            #expect(try directory.resolve(AppServiceInfo(name: "s", appID: "app"), on: try device()) == expected)
        }
        let directory = DeviceDirectory(
            try DirectorySamples.endpoint(1, on: 1, schemes: ["https"], presence: .asleep),
            try DirectorySamples.endpoint(2, on: 1, schemes: ["https"], presence: .asleep)
        )
        #expect(try directory.resolve(try uri(), on: try device()).target.endpoint == (try id(sorted[0])))
    }

    @Test func fallbackIsResolvedLikeTheURI() throws {
        let directory = DeviceDirectory(
            try DirectorySamples.endpoint(1, on: 1, apps: ["a", "b"], schemes: ["https"]),
            try DirectorySamples.endpoint(2, on: 1, apps: ["c", "d"], schemes: ["film"])
        )
        let (film, web, other) = (try uri("film:42"), try uri(), try uri("gopher:x"))
        let resolved = try directory.resolve(other, fallback: web, preferredAppIDs: ["b"], on: try device())
        #expect(resolved == ResolvedLaunch(target: ResolvedTarget(endpoint: try id(1), appID: "b"), uri: web, isFallback: true))
        #expect(throws: TargetError.protocolUnavailable) { try directory.resolve(other, on: try device()) }
        #expect(throws: TargetError.protocolUnavailable) { try directory.resolve(other, fallback: other, on: try device()) }
        #expect(throws: TargetError.ambiguous(appIDs: ["a", "b"])) { try directory.resolve(other, fallback: web, on: try device()) }
        // Several matching apps are ambiguous, so the fallback is not used.
        #expect(throws: TargetError.ambiguous(appIDs: ["c", "d"])) {
            try directory.resolve(film, fallback: web, preferredAppIDs: ["b"], on: try device())
        }
    }

    @Test func namedAppIsUsedForDeclaredSchemesOnly() throws {
        var directory = DeviceDirectory(
            try DirectorySamples.endpoint(1, on: 1, apps: ["a", "b"], schemes: ["film"], trust: .new),
            try DirectorySamples.endpoint(2, on: 1, apps: ["c"], schemes: ["https"], trust: .new)
        )
        let app = try #require(directory.systems().first?.apps.first { $0.appID == "b" })
        let film = try uri("film:1")
        let target = ResolvedTarget(endpoint: try id(1), appID: "b")
        let resolved = try directory.resolve(film, on: RemoteSystemConnectionRequest(app))
        #expect(resolved == ResolvedLaunch(target: target, uri: film, isFallback: false))
        #expect(throws: TargetError.protocolUnavailable) { try directory.resolve(try uri(), on: RemoteSystemConnectionRequest(app)) }
        let fallen = try directory.resolve(try uri(), fallback: film, on: RemoteSystemConnectionRequest(app))
        #expect(fallen == ResolvedLaunch(target: target, uri: film, isFallback: true))
        directory.update(try id(1)) { $0.registrations.removeLast() }
        #expect(throws: TargetError.appUnavailable) { try directory.resolve(try uri(), on: RemoteSystemConnectionRequest(app)) }
        directory.remove(try id(1))
        #expect(throws: TargetError.remoteSystemUnavailable) { try directory.resolve(try uri(), on: RemoteSystemConnectionRequest(app)) }
    }

    @Test func missingDeviceIsUnavailable() throws {
        let directory = DeviceDirectory(try DirectorySamples.endpoint(1, on: 1, apps: []))
        for number: UInt8 in [1, 2] {
            #expect(throws: TargetError.remoteSystemUnavailable) { try directory.resolve(try uri(), on: try device(number)) }
            #expect(throws: TargetError.remoteSystemUnavailable) {
                try directory.resolve(AppServiceInfo(name: "s", appID: "a"), on: try device(number))
            }
        }
    }

    @Test func appServiceIsFoundByNameAndPackage() throws {
        let directory = DeviceDirectory(
            try DirectorySamples.endpoint(1, on: 1, apps: ["a"], services: ["photos"]),
            try DirectorySamples.endpoint(2, on: 1, apps: ["a", "b"], services: ["music"], presence: .off)
        )
        func resolve(_ name: String, _ appID: String, on request: RemoteSystemConnectionRequest) throws -> ResolvedTarget {
            try directory.resolve(AppServiceInfo(name: name, appID: appID), on: request)
        }
        #expect(try resolve("music", "a", on: try device()) == ResolvedTarget(endpoint: try id(2), appID: "a"))
        #expect(try resolve("photos", "a", on: try device()) == ResolvedTarget(endpoint: try id(1), appID: "a"))
        #expect(throws: TargetError.appServiceUnavailable) { try resolve("photos", "b", on: try device()) }
        #expect(throws: TargetError.appServiceUnavailable) { try resolve("Photos", "a", on: try device()) }
        #expect(throws: TargetError.appNotInstalled) { try resolve("photos", "c", on: try device()) }
        let app = RemoteSystemConnectionRequest(endpoint: try id(2), appID: "b")
        #expect(try resolve("music", "b", on: app) == ResolvedTarget(endpoint: try id(2), appID: "b"))
        #expect(throws: TargetError.appNotInstalled) { try resolve("music", "a", on: app) }
        #expect(throws: TargetError.appServiceUnavailable) { try resolve("photos", "b", on: app) }
        #expect(throws: TargetError.remoteSystemUnavailable) {
            try resolve("music", "b", on: RemoteSystemConnectionRequest(endpoint: try id(9), appID: "b"))
        }
    }

    @Test func newEndpointIsNotChosenBesideAConfirmedOne() throws {
        let service = AppServiceInfo(name: "s", appID: "app")
        for trust in [DeviceDirectory.Trust.pinned, .approved] {
            var directory = DeviceDirectory(
                try DirectorySamples.endpoint(1, on: 1, apps: ["app"], defaults: ["https"], services: ["s"], trust: .new),
                try DirectorySamples.endpoint(2, on: 1, apps: ["app"], schemes: ["https"], services: ["s"], presence: .off, trust: trust)
            )
            let known = ResolvedTarget(endpoint: try id(2), appID: "app")
            #expect(try directory.resolve(try uri(), preferredAppIDs: ["app"], on: try device()).target == known)
            #expect(try directory.resolve(service, on: try device()) == known)
            // Even if the confirmed endpoint publishes no app.
            directory.update(try id(2)) { $0.registrations = [] }
            #expect(throws: TargetError.notConfirmed(endpoints: [try id(1)])) { try directory.resolve(try uri(), on: try device()) }
            #expect(throws: TargetError.notConfirmed(endpoints: [try id(1)])) { try directory.resolve(service, on: try device()) }
            #expect(throws: TargetError.protocolUnavailable) { try directory.resolve(try uri("film:1"), on: try device()) }
            directory.update(try id(1)) { $0.trust = .approved }
            #expect(try directory.resolve(try uri(), on: try device()).target.endpoint == (try id(1)))
        }
    }

    @Test func unconfirmedDeviceCanBeAddressed() throws {
        let directory = DeviceDirectory(try DirectorySamples.endpoint(1, on: 1, schemes: ["https"], trust: .new))
        #expect(try directory.resolve(try uri(), on: try device()).target.endpoint == (try id(1)))
    }

    @Test(arguments: [1, 2, 3] as [UInt64])
    func randomDirectoriesPreferConfirmedEndpoints(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var found = 0
        for _ in 0..<150 {
            var directory = DeviceDirectory(account: "account")
            for number in UInt8(1)...5 where random.oneIn(2) {
                let trusts: [DeviceDirectory.Trust] = [.new, .approved, .pinned]
                directory.add(
                    try DirectorySamples.endpoint(
                        number,
                        on: 1,
                        apps: random.oneIn(4) ? [] : ["a", "b"].filter { _ in random.oneIn(2) },
                        schemes: random.oneIn(2) ? ["https"] : [],
                        services: random.oneIn(2) ? ["s"] : [],
                        presence: [Presence.available, .asleep, .off].randomElement(using: &random) ?? .off,
                        trust: trusts.randomElement(using: &random) ?? .new
                    )
                )
            }
            let isKnown = directory.endpoints.values.contains(where: \.isConfirmed)
            let targets = [
                try? directory.resolve(try uri(), preferredAppIDs: random.oneIn(2) ? ["a"] : [], on: try device()).target,
                try? directory.resolve(AppServiceInfo(name: "s", appID: "a"), on: try device()),
            ].compactMap(\.self)
            for target in targets {
                let endpoint = try #require(directory[target.endpoint])
                #expect(endpoint.isConfirmed || !isKnown, "seed \(seed)")
                #expect(endpoint.registrations.contains { $0.appID == target.appID }, "seed \(seed)")
                found += 1
            }
        }
        #expect(found > 50)
    }
}

@Suite struct DeviceLookupTests {
    private func directory() throws -> DeviceDirectory {
        DeviceDirectory(
            try DirectorySamples.endpoint(1, on: 1, name: "Living Room"),
            try DirectorySamples.endpoint(2, on: 2, name: "phone"),
            try DirectorySamples.endpoint(3, on: 3, name: "Phone")
        )
    }

    @Test func deviceIsFoundByNameIDAndPrefix() throws {
        let directory = try directory()
        let id = try DirectorySamples.system(1)
        for text in [
            "Living Room", "living room", "LIVING ROOM", id.description, id.description.uppercased(), id.label,
            String(id.description.prefix(4)),
        ] {
            #expect(try directory.system(named: text).id == id)
        }
    }

    @Test func incompleteOrAmbiguousNamesFail() throws {
        let directory = try directory()
        for text in ["", "Living", String(try DirectorySamples.system(1).description.prefix(3)), "zzzzzzzz"] {
            #expect(throws: RemoteSystemLookupError.notFound) { try directory.system(named: text) }
        }
        let phones = directory.everything.filter { $0.displayName.lowercased() == "phone" }.sorted { $0.id < $1.id }
        #expect(phones.count == 2)
        #expect(throws: RemoteSystemLookupError.ambiguous(phones)) { try directory.system(named: "PHONE") }
        for phone in phones { #expect(try directory.system(named: phone.id.label) == phone) }
    }

    @Test func nameEqualToAnotherIDIsDistinguished() throws {
        var directory = try directory()
        let id = try DirectorySamples.system(1)
        directory.add(try DirectorySamples.endpoint(4, on: 4, name: id.label, trust: .approved))
        #expect(throws: RemoteSystemLookupError.self) { try directory.system(named: id.label) }
        directory.add(try DirectorySamples.endpoint(5, on: 5, name: id.description, trust: .new))
        #expect(try directory.system(named: id.description).id == id)
    }

    @Test func newDeviceDoesNotShadowAKnownName() throws {
        var directory = try directory()
        let id = try DirectorySamples.system(1)
        for (number, name) in [(4, "living room"), (5, id.label), (6, "Tablet"), (7, "tablet")] as [(UInt8, String)] {
            directory.add(try DirectorySamples.endpoint(number, on: number, name: name, trust: .new))
        }
        for text in ["Living Room", id.label] { #expect(try directory.system(named: text).id == id) }
        #expect(throws: RemoteSystemLookupError.self) { try directory.system(named: "tablet") }
        // A different name by bytes.
        directory.add(try DirectorySamples.endpoint(8, on: 8, name: "Cafe\u{301}"))
        #expect(throws: RemoteSystemLookupError.notFound) { try directory.system(named: "Caf\u{E9}") }
        #expect(try directory.system(named: "cafe\u{301}").id == (try DirectorySamples.system(8)))
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import DeviceRelayTesting
import Foundation
import Testing

/// An app that shares photos, as its author would write it.
struct PhotoApp {
    static let id = "com.example.photos"
    static let photos = AppServiceInfo(name: "photos", appID: id)

    struct ListAlbum: AppServiceCall {
        struct Response: Codable, Sendable { var names: [String] }
        static let type = "list"
        var album: String
    }

    let albums: [String: [String]]
    let shown: AsyncStream<String>.Continuation

    var registration: RemoteSystemAppRegistration {
        RemoteSystemAppRegistration(
            appID: Self.id,
            displayName: "Photos",
            launchHandler: LaunchHandler(schemes: ["photos"]) { request in
                guard let album = URL(string: request.uri.text)?.host() else { return .unsupported }
                shown.yield(album)
                return .launched
            },
            services: [
                AppService("photos") { connection, _ in
                    try await connection.respond { request in
                        let call = try ValueSetDecoder().decode(ListAlbum.self, from: request.message)
                        guard let names = albums[call.album] else { throw AppServiceError(.failure, message: "there is no such album") }
                        return try ValueSetEncoder().encode(ListAlbum.Response(names: names))
                    }
                }
            ]
        )
    }
}

/// The app on the other device: asks for an album, and shows it on a device with a larger screen.
struct Remote {
    let platform: ConnectedDevicesPlatform

    func pc() async -> RemoteSystem? {
        for await systems in platform.remoteSystems(matching: [.kinds([.desktop]), .status(.available)]).snapshots {
            if let pc = systems.first(where: { $0.apps.contains { $0.appID == PhotoApp.id } }) { return pc }
        }
        return nil
    }

    func names(in album: String, on pc: RemoteSystem) async throws -> [String] {
        try await platform.withAppService(PhotoApp.photos, on: .init(pc)) { try await $0.call(PhotoApp.ListAlbum(album: album)).names }
    }

    func show(_ album: String, on pc: RemoteSystem) async throws {
        guard let uri = URL(string: "photos://\(album)") else { return }
        _ = try await platform.launch(uri, on: .init(pc))
    }
}

@Suite(.timeLimit(.minutes(10))) struct PhotoAppTests {
    private func app() -> (PhotoApp, AsyncStream<String>) {
        let (stream, shown) = AsyncStream.makeStream(of: String.self)
        return (PhotoApp(albums: ["rome": ["forum.jpg", "pantheon.jpg"]], shown: shown), stream)
    }

    @Test func albumIsListedAndShown() async throws {
        let (app, shown) = app()
        // snippet: testing
        try await withTestRelay { relay in
            _ = try await relay.platform(named: "PC", kind: .desktop, publishing: app.registration)
            let phone = Remote(platform: try await relay.platform(named: "Phone"))
            let pc = try #require(await phone.pc())
            #expect(try await phone.names(in: "rome", on: pc) == ["forum.jpg", "pantheon.jpg"])
            try await phone.show("rome", on: pc)
            #expect(await shown.first { _ in true } == "rome")
        }
        // end
    }

    @Test func launchDuringARelayRestartIsDelivered() async throws {
        let (app, shown) = app()
        try await withTestRelay { relay in
            _ = try await relay.platform(named: "PC", kind: .desktop, publishing: app.registration)
            let phone = Remote(platform: try await relay.platform(named: "Phone"))
            let pc = try #require(await phone.pc())
            // snippet: testing-restart
            await relay.stop()
            for await state in phone.platform.connectionStates(for: relay.account) where !state.isConnected { break }
            let uri = try #require(URL(string: "photos://rome"))
            let launch = try await phone.platform.submit(uri, on: .init(pc))  // kept on the phone
            try await relay.start()
            _ = try await launch.outcome()
            #expect(await shown.first { _ in true } == "rome")
            // end
            // The service is there again, too.
            let back = try #require(await phone.pc())
            #expect(try await phone.names(in: "rome", on: back).count == 2)
        }
    }

    @Test func newDeviceMayNotRequestPhotos() async throws {
        let (app, _) = app()
        try await withTestRelay { relay in
            let pc = try await relay.platform(named: "PC", kind: .desktop, publishing: app.registration)
            let newcomer = Remote(platform: try await relay.platform(named: "Phone", isConfirmed: false))
            let found = try #require(await newcomer.pc())
            await #expect {
                _ = try await newcomer.names(in: "rome", on: found)
            } throws: {
                ($0 as? AppServiceError)?.code == .notAuthorized
            }
            let endpoint = try #require(newcomer.platform.accounts.endpoint(of: relay.account))
            #expect(await pc.confirm(endpoint, for: relay.account))
            #expect(try await newcomer.names(in: "rome", on: found).count == 2)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import DeviceRelayLifecycle
import Foundation
import Logging
import ServiceLifecycle
import UnixSignals

// The code of the documentation, compiled here. The documentation shows the lines between `snippet:` and `end`.

func open(_ link: JoinLink, relay: URL, directory: URL, player: RemoteSystemAppRegistration) async throws {
    // snippet: platform
    let account = ConnectedDevicesAccount(id: "me")
    let platform = ConnectedDevicesPlatform(
        settings: .init(relay: relay, relayID: link.relay, storageDirectory: directory),
        accessTokens: JoinLinkAccessTokenProvider(clientID: "com.example.player")
    )
    try platform.host(player, for: account)  // before start: what waits for this device finds its handlers
    try await platform.start()  // opens the storage; never waits for the network
    try await platform.accounts.add(account, joining: link)  // once; later launches find the account
    // end
}

func signIn(
    _ account: ConnectedDevicesAccount,
    settings: ConnectedDevicesPlatformSettings,
    show: @escaping @Sendable (String, URL) async -> Void
) async throws {
    // snippet: sign-in
    let tokens = DeviceGrantAccessTokenProvider(clientID: "com.example.player") { prompt in
        await show(prompt.userCode, prompt.verificationURI)
    }
    let platform = ConnectedDevicesPlatform(settings: settings, accessTokens: tokens)
    try await platform.start()
    try await platform.accounts.add(account)  // waits until the user has decided
    // end
}

func discover(_ platform: ConnectedDevicesPlatform, show: ([RemoteSystem]) -> Void) async {
    // snippet: discover
    let watcher = platform.remoteSystems(matching: [.kinds([.desktop, .tablet]), .status(.available)])
    for await systems in watcher.snapshots { show(systems) }
    // end
}

struct Row {
    var title: String
    var detail: String
    var approve: () async throws -> Void
    var refuse: () async throws -> Void
}

func review(_ platform: ConnectedDevicesPlatform, for account: ConnectedDevicesAccount, show: ([Row]) -> Void) async {
    // snippet: new-endpoints
    for await endpoints in platform.newEndpoints(for: account) {
        let rows = endpoints.map { new in
            Row(
                title: "\(new.deviceName) (\(new.kind.rawValue)): \(new.fingerprint)",
                detail:
                    "since \(new.joining?.time.description ?? "?") from \(new.joining?.address ?? "?"), invited by \(new.inviterName ?? "?")",
                approve: { try await platform.approve(new) },
                refuse: { try await platform.refuse(new) }
            )
        }
        show(rows)
    }
    // end
}

func launch(_ film: URL, _ platform: ConnectedDevicesPlatform, on livingRoom: RemoteSystem) async {
    // snippet: launch
    do {
        let options = RemoteLauncherOptions(preferredAppIDs: ["com.example.player"])
        let receipt = try await platform.launch(film, on: .init(livingRoom), options: options)
        print("taken by \(receipt.target.appID)")
    } catch {
        print("\(error.code): \(error.message)")
    }
    // end
}

func submit(_ platform: ConnectedDevicesPlatform, _ film: URL, on livingRoom: RemoteSystem) async throws {
    // snippet: submit
    let command = try await platform.submit(film, on: .init(livingRoom), options: .init(timeToLive: .seconds(86_400)))
    for await status in command.statuses { print(status) }  // accepted, waking, delivered, final
    let receipt = try await command.outcome()
    // end
    _ = receipt
}

func host(
    _ platform: ConnectedDevicesPlatform,
    for account: ConnectedDevicesAccount,
    play: @escaping @Sendable (LaunchURI) async -> Bool,
    setVolume: @escaping @Sendable (ValueSet) async throws -> Int64
) async throws {
    // snippet: host
    let player = RemoteSystemAppRegistration(
        appID: "com.example.player",
        displayName: "Player",
        attributes: ["version": "3"],
        launchHandler: LaunchHandler(schemes: ["https"]) { request in await play(request.uri) ? .launched : .unsupported },
        services: [
            AppService("remote-control") { connection, caller in
                try await connection.respond { request in ["Volume": .int(try await setVolume(request.message))] }
            }
        ]
    )
    try await platform.publish(player, for: account)
    // end
}

func call(_ platform: ConnectedDevicesPlatform, on pc: RemoteSystem, yesterday: Date) async throws {
    // snippet: service
    struct ListAlbum: AppServiceCall {
        struct Response: Codable, Sendable { var photos: [String] }
        static let type = "list-album"
        var name: String
    }
    let service = AppServiceInfo(name: "photos", appID: "com.example.photoshare")
    try await platform.withAppService(service, on: .init(pc)) { photos in
        let answer = try await photos.send(["Type": "list", "Since": .date(yesterday)])
        let album = try await photos.call(ListAlbum(name: "Rome"))
        print(answer.count, album.photos)
    }
    // end
}

func background(_ platform: ConnectedDevicesPlatform) async {
    // snippet: background
    await platform.suspend()  // in the background; returns within seconds
    await platform.resume()  // in the foreground again
    // end
}

func register(deviceToken: Data, _ platform: ConnectedDevicesPlatform, for account: ConnectedDevicesAccount) async throws {
    // snippet: device-token
    let token = deviceToken.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    let registration = NotificationRegistration(type: .apns, token: token, appID: "com.example.player", displayName: "Player")
    try await platform.notifications.register(registration, for: account)
    // end
}

func received(_ userInfo: [AnyHashable: Any], _ platform: ConnectedDevicesPlatform) async -> Bool {
    // snippet: notification
    guard let notification = ConnectedDevicesNotification(parsing: userInfo) else { return false }  // it is not from a relay
    return await platform.process(notification)
    // end
}

func serve(
    _ player: RemoteSystemAppRegistration,
    _ platform: ConnectedDevicesPlatform,
    for account: ConnectedDevicesAccount,
    logger: Logger
) async throws {
    // snippet: service-group
    try platform.host(player, for: account)
    try await ServiceGroup(services: [platform], gracefulShutdownSignals: [.sigterm], logger: logger).run()
    // end
}

func share(
    _ photo: URL,
    with livingRoom: RemoteSystem,
    _ platform: ConnectedDevicesPlatform,
    draw: (Int64, Int64) -> Void
) async throws -> NearShareReport {
    func show(_ bytes: Int64, of all: Int64) { draw(bytes, all) }
    // snippet: share
    let operation = NearShareSender(platform).send([.file(photo), .text("from last summer")], to: .init(livingRoom))
    for await progress in operation.progress { show(progress.bytesSent, of: progress.totalBytesToSend) }
    let report = try await operation.result()
    // end
    return report
}

func receive(
    into inbox: URL,
    _ platform: ConnectedDevicesPlatform,
    _ account: ConnectedDevicesAccount,
    ask: @escaping @Sendable (String, [String]) async -> Bool,
    show: @escaping @Sendable ([URL]) async -> Void
) async throws {
    // snippet: receive
    let files = RemoteSystemAppRegistration(
        appID: "com.example.files",
        sharing: SharingHandler(
            decide: { offer in await ask(offer.caller.deviceName, offer.names) ? .accept(into: inbox) : .decline },
            received: { received in await show(received.urls) }
        )
    )
    try await platform.publish(files, for: account)
    // end
}

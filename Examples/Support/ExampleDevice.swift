// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import DeviceRelay
import Foundation

/// What the examples have in common: a device whose state is in one directory, and which has joined an account by a link.
public struct ExampleDevice: Sendable {
    /// Started.
    public let platform: ConnectedDevicesPlatform
    /// The one account.
    public let account: ConnectedDevicesAccount

    /// What is kept beside the platform's own storage, so that a link is needed once only.
    private struct Membership: Codable {
        var relay: URL
        var relayID: String
        var name: String
    }

    private static let account = ConnectedDevicesAccount(id: "me")

    /// Makes a directory a device of the account that a link is for. The link works once.
    /// - Parameter app: The app's id.
    public static func join(_ text: String, as name: String, in directory: String, app: String) async throws {
        let link = try JoinLink(parsing: text, plainHTTP: .allowed)
        guard let relay = URL(string: link.origin) else { throw Problem("the link's address is none") }
        let membership = Membership(relay: relay, relayID: "\(link.relay)", name: name)
        _ = try await withConnectedDevicesPlatform(settings: settings(membership, directory), accessTokens: tokens(app)) { platform in
            try await platform.accounts.add(account, joining: link)
        }
        try JSONEncoder().encode(membership).write(to: file(in: directory))
        say("joined \(link.origin) as \(name)")
    }

    /// Runs a closure with the device of a directory.
    /// - Parameter hosted: An app that takes from the start what waits for it.
    public static func with(
        _ directory: String,
        app: String,
        hosting hosted: RemoteSystemAppRegistration? = nil,
        _ body: (ExampleDevice) async throws -> Void
    ) async throws {
        guard let data = try? Data(contentsOf: file(in: directory)) else { throw Problem("join first: there is no device in \(directory)") }
        let membership = try JSONDecoder().decode(Membership.self, from: data)
        let platform = ConnectedDevicesPlatform(settings: settings(membership, directory), accessTokens: tokens(app))
        if let hosted { platform.host(hosted, for: account) }
        try await platform.start()
        do {
            try await body(ExampleDevice(platform: platform, account: account))
        } catch {
            await platform.shutdown()
            throw error
        }
        await platform.shutdown()
    }

    /// Publishes an app, and serves it until the process is ended.
    public static func host(_ app: RemoteSystemAppRegistration, in directory: String) async throws {
        try await with(directory, app: app.appID, hosting: app) { device in
            try await device.platform.publish(app, for: device.account)
            say("hosting \(app.appID)")
            for await state in device.platform.connectionStates(for: device.account) {
                guard state.phase == .stopped, let problem = state.problem else { continue }
                throw problem
            }
        }
    }

    /// Waits until a device of that name can be reached, and has one of some apps.
    public func system(named name: String, with apps: Set<String>) async throws -> RemoteSystem {
        var isWaiting = false
        for await systems in platform.remoteSystems(matching: [.status(.available)]).snapshots {
            let meant = systems.filter { $0.displayName == name && $0.apps.contains { apps.contains($0.appID) } }
            guard meant.count < 2 else { throw Problem("several devices are called \(name)") }
            if let system = meant.first { return system }
            if !isWaiting { say("waiting for \(name)") }
            isWaiting = true
        }
        throw Problem("it was interrupted")
    }

    private static func settings(_ membership: Membership, _ directory: String) -> ConnectedDevicesPlatformSettings {
        var settings = ConnectedDevicesPlatformSettings(
            relay: membership.relay,
            relayID: RelayID(membership.relayID),
            storageDirectory: URL(filePath: directory).appending(path: "storage")
        )
        settings.device.name = membership.name
        return settings
    }

    private static func tokens(_ app: String) -> JoinLinkAccessTokenProvider { JoinLinkAccessTokenProvider(clientID: app) }
    private static func file(in directory: String) -> URL { URL(filePath: directory).appending(path: "membership.json") }
}

/// What a person has to be told.
public struct Problem: Error, CustomStringConvertible {
    /// What it is, and what to do.
    public let description: String
    /// A problem.
    public init(_ description: String) { self.description = description }
}

/// Prints a line at once.
public func say(_ text: String) { FileHandle.standardOutput.write(Data("\(text)\n".utf8)) }

/// Runs an example, and ends the process with 1 if it fails, with 2 if it was used in a wrong way.
public func run(usage: String, _ body: @Sendable ([String]) async throws -> Bool) async {
    do {
        if try await body(Array(CommandLine.arguments.dropFirst())) { return }
        FileHandle.standardError.write(Data("usage: \(usage)\n".utf8))
        exit(2)
    } catch {
        FileHandle.standardError.write(Data("\(error)\n".utf8))
        exit(1)
    }
}

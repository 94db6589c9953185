// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import DeviceRelay
import Foundation

/// The common part of the examples: a device with its state in one directory, which has joined an account by a link.
public struct ExampleDevice: Sendable {
    /// The platform, started.
    public let platform: ConnectedDevicesPlatform
    /// The only account.
    public let account: ConnectedDevicesAccount

    /// Stored next to the platform's own storage, so that a link is needed only once.
    private struct Membership: Codable {
        var relay: URL
        var relayID: String
        var name: String
    }

    private static let account = ConnectedDevicesAccount(id: "me")

    /// Makes a directory a device of the account of a link, which is read from standard input: other users of a machine see arguments. The
    /// link works once.
    /// - Parameter app: The app's id.
    public static func join(as name: String, in directory: String, app: String) async throws {
        guard let text = readLine() else { throw Problem("standard input has no link") }
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
    /// - Parameter hosted: An app that is hosted before the start, so that it gets waiting commands.
    public static func with(
        _ directory: String,
        app: String,
        hosting hosted: RemoteSystemAppRegistration? = nil,
        _ body: (ExampleDevice) async throws -> Void
    ) async throws {
        guard let data = try? Data(contentsOf: file(in: directory)) else { throw Problem("join first: there is no device in \(directory)") }
        let membership = try JSONDecoder().decode(Membership.self, from: data)
        let platform = ConnectedDevicesPlatform(settings: settings(membership, directory), accessTokens: tokens(app))
        if let hosted { try platform.host(hosted, for: account) }
        try await platform.start()
        do {
            try await body(ExampleDevice(platform: platform, account: account))
        } catch {
            await platform.shutdown()
            throw error
        }
        await platform.shutdown()
    }

    /// Publishes an app, and serves it until the process ends.
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

    /// Waits until a device with that name is available and has one of the given apps.
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

/// An error for the user.
public struct Problem: Error, CustomStringConvertible {
    /// What happened and what to do about it.
    public let description: String
    /// Creates an error.
    public init(_ description: String) { self.description = description }
}

/// Prints a line unbuffered.
public func say(_ text: String) { FileHandle.standardOutput.write(Data("\(text)\n".utf8)) }

/// Runs an example. The exit status is 1 after an error and 2 after wrong usage.
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

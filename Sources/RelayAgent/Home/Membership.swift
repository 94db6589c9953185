// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import Logging
import RelayProtocol

/// The content of `relay.json`: the joined relay and this device's name there. It contains no secret.
struct Membership: Codable, Hashable {
    /// Scheme, host and port; empty for a device that only knows those that it was paired with.
    var relay: String
    var relayID: RelayID
    var name: String
    var kind: RemoteSystemKind
    /// Whether plain HTTP to another machine is allowed.
    var allowsPlainHTTP = false
    /// A PEM file of the authorities that may sign the relay's certificate; `nil` for the system's.
    var caFile: String?
    /// Whether a person at the terminal has to confirm the account before this device is in it; absent in older files.
    var isUnconfirmed: Bool?

    /// Whether the local network is used; absent for the default, `known`.
    var nearby: NearbySettings.Mode?

    private enum CodingKeys: String, CodingKey {
        case relay, relayID, name, kind, caFile, nearby
        case isUnconfirmed = "unconfirmed"
        case allowsPlainHTTP = "insecure"
    }

    var authorities: TrustRoots { caFile.map { .file(URL(filePath: $0)) } ?? .system }

    /// A device without an account, which only knows those that it was paired with.
    init(withoutRelay name: String, kind: RemoteSystemKind) { self.init(relay: "", relayID: .none, name: name, kind: kind) }

    init(
        relay: String,
        relayID: RelayID,
        name: String,
        kind: RemoteSystemKind,
        allowsPlainHTTP: Bool = false,
        caFile: String? = nil
    ) {
        (self.relay, self.relayID, self.name, self.kind) = (relay, relayID, name, kind)
        (self.allowsPlainHTTP, self.caFile) = (allowsPlainHTTP, caFile)
    }

    var hasRelay: Bool { relayID != .none }

    /// The account that commands use.
    var account: ConnectedDevicesAccount { hasRelay ? Self.relayAccount : .anonymous }

    /// The platform's id of the account at the relay in a directory.
    static let relayAccount = ConnectedDevicesAccount(id: "default")
    static let clientID = "org.device-relay.cli"

    /// Creates the platform without starting it.
    /// - Parameters:
    ///   - accessTokens: The source of tokens; by default the stored login, which never asks a user.
    ///   - confirmsAccount: Asks whether this device joins an account.
    ///   - changing: Changes how the local network is used.
    func platform(
        in home: Home,
        console: Console,
        accessTokens: any AccessTokenProvider = JoinLinkAccessTokenProvider(clientID: Self.clientID),
        confirmsAccount: (@Sendable (AccountToJoin) async -> Bool)? = nil,
        changing: (inout NearbySettings) -> Void = { _ in }
    ) throws -> ConnectedDevicesPlatform {
        let url = URL(exactly: relay)
        guard url != nil || !hasRelay else {
            throw AgentError(
                "storageFailed",
                "the relay's URL in \(home.path)/relay.json is not valid; correct it, or delete the directory and join again",
                .failed
            )
        }
        var device = DeviceDescription.thisDevice
        device.name = name
        device.kind = kind
        var settings = ConnectedDevicesPlatformSettings(
            storageDirectory: URL(filePath: home.path, directoryHint: .isDirectory),
            device: device
        )
        if hasRelay { (settings.relay, settings.relayID) = (url, relayID) }
        settings.allowsPlainHTTP = allowsPlainHTTP
        settings.confirmsAccount = confirmsAccount
        if confirmsAccount == nil, isUnconfirmed ?? false { settings.confirmsAccount = { _ in false } }
        settings.logger = Logger(label: "relay") { _ in ConsoleLogHandler { console.log($0) } }
        settings.certificateAuthorities = caFile.map { URL(filePath: $0) }
        settings.nearby.mode = try NearbySettings.Mode(environment: ProcessInfo.processInfo.environment) ?? nearby ?? .known
        changing(&settings.nearby)
        return ConnectedDevicesPlatform(settings: settings, accessTokens: accessTokens)
    }

    /// Validates a name that other devices show.
    /// - Parameter advice: How to give another one.
    static func checked(_ name: String, otherwise advice: String = "give another with --name NAME") throws -> String {
        let most = Limits()[.displayNameCharacters]
        guard name.utf8.count <= 16 * most, name.count <= most else {
            throw AgentError("nameInvalid", "a device's name has at most \(most) characters; \(advice)", .usage)
        }
        guard DisplayText.isPlain(name), DisplayText.isVisible(name) else {
            throw AgentError(
                "nameInvalid",
                "a device's name must have visible characters, and none that controls a terminal or the writing direction; \(advice)",
                .usage
            )
        }
        return name
    }
}

extension NearbySettings.Mode {
    /// - Returns: `nil` if the variable is not set, or empty.
    init?(environment: [String: String]) throws {
        guard let text = environment["DEVICE_RELAY_NEARBY"], !text.isEmpty else { return nil }
        guard let mode = Self(rawValue: text) else {
            let modes = Self.allCases.map(\.rawValue).joined(separator: ", ")
            throw AgentError("usage", "DEVICE_RELAY_NEARBY must be one of \(modes), not '\(DisplayText.sanitized(text))'", .usage)
        }
        self = mode
    }
}

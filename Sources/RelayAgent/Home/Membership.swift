// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Logging
import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The content of `relay.json`: the joined relay and this device's name there. It contains no secret.
struct Membership: Codable, Hashable {
    /// Scheme, host and port.
    var relay: String
    var relayID: RelayID
    var name: String
    var kind: RemoteSystemKind
    /// Whether plain HTTP to another machine is allowed.
    var allowsPlainHTTP = false
    /// A PEM file of the authorities that may sign the relay's certificate; `nil` for the system's.
    var caFile: String?

    private enum CodingKeys: String, CodingKey {
        case relay, relayID, name, kind, caFile
        case allowsPlainHTTP = "insecure"
    }

    var authorities: TrustRoots { caFile.map { .file(URL(filePath: $0)) } ?? .system }

    /// The platform's id of the only account in a directory.
    static let account = ConnectedDevicesAccount(id: "default")
    static let clientID = "org.device-relay.cli"

    /// Creates the platform without starting it.
    /// - Parameter accessTokens: The source of tokens; by default the stored login, which never asks a user.
    func platform(
        in home: Home,
        console: Console,
        accessTokens: any AccessTokenProvider = JoinLinkAccessTokenProvider(clientID: Self.clientID)
    ) throws -> ConnectedDevicesPlatform {
        guard let url = URL(exactly: relay) else {
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
            relay: url,
            relayID: relayID,
            storageDirectory: URL(filePath: home.path, directoryHint: .isDirectory),
            device: device
        )
        settings.allowsPlainHTTP = allowsPlainHTTP
        settings.logger = Logger(label: "relay") { _ in ConsoleLogHandler { console.note($0) } }
        settings.certificateAuthorities = caFile.map { URL(filePath: $0) }
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

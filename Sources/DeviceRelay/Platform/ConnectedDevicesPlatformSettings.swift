// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Logging
public import RelayProtocol

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// What a platform needs to know: its relay, where it keeps its state, and what this device is called.
public struct ConnectedDevicesPlatformSettings: Sendable {
    /// The relay's URL: scheme, host and port. Without TLS only on this machine, unless `allowsPlainHTTP` is set.
    public var relay: URL
    /// The relay's key, if it is known, as from a join link: it is then trusted by that key. Otherwise its certificate must be one
    /// that this system trusts.
    public var relayID: RelayID?
    /// A directory of this app's own, for keys, tokens and commands. It is made if it is not there, and belongs to this user alone. Several
    /// processes may use it side by side; of these, one at a time hosts.
    public var storageDirectory: URL
    /// How this device presents itself to the person's other devices.
    public var device: DeviceDescription
    /// Whether a relay on another machine may be talked to without TLS. Off by default: then anybody on the way learns the access token.
    public var allowsPlainHTTP = false
    /// A PEM file of the authorities that the relay's certificate is checked with, in place of the system's: for a relay behind a private
    /// authority. Not needed where the relay's key is pinned, as by a join link. By default the system's; on Linux those of the file that
    /// the environment names in `SSL_CERT_FILE`, if it does.
    public var certificateAuthorities: URL? {
        get { if case .file(let url) = authorities { url } else { nil } }
        set { authorities = newValue.map { .file($0) } ?? .system }
    }
    /// Where the platform logs. It never logs tokens, URIs or messages. By default nothing is logged.
    public var logger = Logger(label: "device-relay", factory: { _ in SwiftLogNoOpLogHandler() })

    package var clock = PlatformClock.system
    package var sessionTiming = SessionTiming()
    package var systemKey = SystemKeyFile.shared
    package var authorities = TrustRoots.system

    /// Settings for a relay at a URL.
    public init(relay: URL, relayID: RelayID? = nil, storageDirectory: URL, device: DeviceDescription = .thisDevice) {
        self.relay = relay
        self.relayID = relayID
        self.storageDirectory = storageDirectory
        self.device = device
    }
}

/// How a device presents itself.
public struct DeviceDescription: Hashable, Sendable {
    /// The name that its person knows it by: 1 to 64 characters, none that controls a terminal or the writing direction.
    public var name: String
    /// What sort of device it is; for display.
    public var kind: RemoteSystemKind
    /// The operating system.
    public var platform: RemoteSystemPlatform
    /// Who made it, if that is known.
    public var manufacturer: String?
    /// Which model it is, if that is known.
    public var model: String?

    /// A device's description.
    public init(
        name: String,
        kind: RemoteSystemKind,
        platform: RemoteSystemPlatform,
        manufacturer: String? = nil,
        model: String? = nil
    ) {
        self.name = name
        self.kind = kind
        self.platform = platform
        self.manufacturer = manufacturer
        self.model = model
    }

    /// What this process can tell of the device it runs on: the host's name and the operating system.
    public static var thisDevice: DeviceDescription {
        #if os(iOS)
        let (kind, platform) = (RemoteSystemKind.phone, RemoteSystemPlatform.iOS)
        #elseif os(macOS)
        let (kind, platform) = (RemoteSystemKind.desktop, RemoteSystemPlatform.macOS)
        #elseif os(Linux)
        let (kind, platform) = (RemoteSystemKind.desktop, RemoteSystemPlatform.linux)
        #else
        let (kind, platform) = (RemoteSystemKind.desktop, RemoteSystemPlatform.unknown)
        #endif
        let host = ProcessInfo.processInfo.hostName.prefix { $0 != "." }
        let name = DisplayText.sanitized(String(host.prefix(64)))
        return DeviceDescription(name: DisplayText.isVisible(name) ? name : "Device", kind: kind, platform: platform)
    }
}

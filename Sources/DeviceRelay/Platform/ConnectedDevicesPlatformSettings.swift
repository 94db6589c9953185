// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Foundation
public import Logging
public import RelayProtocol

/// The settings of a platform: its relay, its storage directory, and the description of this device.
public struct ConnectedDevicesPlatformSettings: Sendable {
    /// The relay's URL: scheme, host and port. Plain HTTP is limited to this machine unless `allowsPlainHTTP` is set. `nil` for a device
    /// that has only the anonymous account.
    public var relay: URL?
    /// The id of the relay's key, for example from a join link. If it is set, this key authenticates the relay; otherwise the
    /// relay needs a certificate that this system trusts.
    public var relayID: RelayID?
    /// A directory for keys, tokens and commands, for this app and user only. It is created if it does not exist. Several
    /// processes may use it at the same time; one of them at a time may host.
    public var storageDirectory: URL
    /// The storage of the private keys; on Apple systems a `KeychainKeyStorage`, or an app's own. The default is files in
    /// `storageDirectory`, which only this user can read. It is set before the first start: keys do not move to another storage.
    public var keyStorage: (any KeyStorage)?
    /// The source of the token for notifications, for apps that get it from their system after the platform has started. Apps that know
    /// their token call `platform.notifications.register` instead.
    public var notificationProvider: (any NotificationProvider)?
    /// Asks whether this device joins an account: after the first sign-in or join link, and if a new sign-in leads to another account than
    /// before. The relay has stated the account then, and does not list this device there yet. If the answer is `false`, the login is ended and
    /// deleted, and the account's problem is `accountNotConfirmed`. The default asks nothing and joins. After a restart of the app an account
    /// that waits for the answer is asked about again.
    public var confirmsAccount: (@Sendable (AccountToJoin) async -> Bool)?
    /// How other devices show this device.
    public var device: DeviceDescription
    /// Whether a relay on another machine may be used without TLS. The default is `false`: without TLS, anyone on the network
    /// path can read the access token.
    public var allowsPlainHTTP = false
    /// A PEM file of the authorities that may sign the relay's certificate, instead of the system's, for a relay with a
    /// private authority. A pinned relay key, as from a join link, does not need it. The default is the system's authorities;
    /// on Linux those of the file in the environment variable `SSL_CERT_FILE`, if it is set.
    public var certificateAuthorities: URL? {
        get { if case .file(let url) = authorities { url } else { nil } }
        set { authorities = newValue.map { .file($0) } ?? .system }
    }
    /// The limits that this device sets.
    public var limits = DeviceLimits()
    /// How this device uses the local network. Default: not at all.
    public var nearby = NearbySettings()
    /// The logger of the platform. Tokens, URIs and messages are never logged. The default logs nothing.
    public var logger = Logger(label: "device-relay", factory: { _ in SwiftLogNoOpLogHandler() })

    package var clock = PlatformClock.system
    package var sessionTiming = SessionTiming()
    package var systemKey = SystemKeyFile.shared
    package var authorities = TrustRoots.system

    /// Creates settings for a relay.
    public init(relay: URL, relayID: RelayID? = nil, storageDirectory: URL, device: DeviceDescription = .thisDevice) {
        self.init(storageDirectory: storageDirectory, device: device)
        self.relay = relay
        self.relayID = relayID
    }

    /// Creates settings for a device without a relay, which has only the anonymous account.
    public init(storageDirectory: URL, device: DeviceDescription = .thisDevice) {
        self.storageDirectory = storageDirectory
        self.device = device
    }

    /// The address that stands for none.
    static let noRelay = URL(exactly: "https://localhost") ?? URL(filePath: "/")

    /// Whether a stored endpoint is of these settings: of their relay, or of the anonymous account, whose id no other one has.
    func includes(_ scope: AccountScope) -> Bool {
        guard scope.accountID != AnonymousAccount.id, scope.relay != .none else {
            return scope.accountID == AnonymousAccount.id && scope.relay == .none
        }
        return relay != nil && relayID.map { $0 == scope.relay } ?? true
    }

    var relayURL: URL {
        get throws(AccountError) {
            guard let relay else { throw AccountError(.unknown, message: "the platform's settings name no relay") }
            return relay
        }
    }
}

/// How other devices show a device.
public struct DeviceDescription: Hashable, Sendable {
    /// The device's name: 1 to 64 characters, without characters that control a terminal or the writing direction.
    public var name: String
    /// The kind of device; for display.
    public var kind: RemoteSystemKind
    /// The operating system.
    public var platform: RemoteSystemPlatform
    /// The manufacturer, if known.
    public var manufacturer: String?
    /// The model, if known.
    public var model: String?

    /// Creates a description.
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

    /// The description of this machine, with its host name and operating system.
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

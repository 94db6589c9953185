// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// An app as other devices see it, with its handlers. It is a value: publishing a new one replaces the old one as a whole.
public struct RemoteSystemAppRegistration: Sendable {
    /// Identifies the app on all devices, for example in reverse DNS form: 1 to 256 visible ASCII characters.
    public var appID: String
    /// The display name: at most 64 characters; may be empty.
    public var displayName: String
    /// Attributes for other devices; at most 32.
    public var attributes: [String: String]
    /// The handler of launches; `nil` if the app accepts none.
    public var launchHandler: LaunchHandler?
    /// The app services; at most 32, with the one that `sharing` adds.
    public var services: [AppService]
    /// Receives what other devices send with `NearShareSender`; `nil` if the app receives nothing. It is published as the app service `share`.
    public var sharing: SharingHandler?
    /// The cross-device app identity that the app belongs to: a domain of its publisher, at most 256 visible ASCII characters. Only apps of
    /// the same identity, on devices of the account, may launch the app and call its services. Default: `nil`, and every app may.
    public var identity: String?
    /// The ids of apps of other identities that may use the app too. It has an effect only with an `identity`.
    public var allowedApps: [String]
    /// What new endpoints may do with the app. It is not published. Default: `webPages`.
    public var newCallers: NewCallerAccess
    /// The bounds of `NewCallerAccess.webPages`.
    package var newCallerBounds = NewCallerBounds()

    /// Creates a registration.
    public init(
        appID: String,
        displayName: String = "",
        attributes: [String: String] = [:],
        launchHandler: LaunchHandler? = nil,
        services: [AppService] = [],
        sharing: SharingHandler? = nil,
        identity: String? = nil,
        allowedApps: [String] = [],
        newCallers: NewCallerAccess = .webPages
    ) {
        self.appID = appID
        self.displayName = displayName
        self.attributes = attributes
        self.launchHandler = launchHandler
        self.services = services
        self.sharing = sharing
        self.identity = identity
        self.allowedApps = allowedApps
        self.newCallers = newCallers
    }

    /// The published content.
    func content(version: UInt64, account: String, endpoint: EndpointID) -> AppRegistration {
        AppRegistration(
            version: version,
            account: account,
            endpoint: endpoint,
            appID: appID,
            displayName: displayName,
            attributes: attributes,
            schemes: (launchHandler?.schemes ?? []).map { .init(name: $0, isDefault: launchHandler?.defaultFor.contains($0) ?? false) },
            services: services.map { .init(name: $0.name, allowedApps: $0.allowedApps) },
            identity: identity,
            allowedApps: identity == nil || allowedApps.isEmpty ? nil : allowedApps
        )
    }
}

/// What new endpoints, which are not approved, may do with an app.
public enum NewCallerAccess: String, Hashable, Sendable, CaseIterable {
    /// Nothing.
    case nothing
    /// Launch pages of the Internet: `http` and `https` URIs, if the app declares the scheme, whose host is certainly not of the local
    /// network. All new endpoints together may launch six per minute on a device.
    case webPages
    /// Everything that known endpoints may do, as soon as they join the account. This was the behaviour of the original. The relay, and
    /// a thief of a join link or of a sign-in of the account, can then launch everything on this app and call all its services.
    case everything
}

/// What new endpoints may do with an app that is open to them for web pages.
package struct NewCallerBounds: Sendable {
    /// The launches of all new endpoints together, per minute. Default: 6.
    package var launchesPerMinute = 6
    /// Whether the app itself decides about pages of the local network. Default: false, and they are declined.
    package var decidesOnLocalPages = false

    package init() {}
}

extension RemoteSystemAppRegistration {
    /// A copy whose sharing is an app service, and whose services expect bulk streams at an endpoint.
    func serving(_ shares: ShareReceiver) -> RemoteSystemAppRegistration {
        var copy = self
        copy.services = services.map { $0.expecting(shares.streams) } + (sharing.map { [shares.service($0)] } ?? [])
        copy.sharing = nil
        return copy
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A device as a user sees it: one piece of hardware with its apps. It is a value that does not change after it was read.
public struct RemoteSystem: Hashable, Sendable, Identifiable {
    /// Identifies a device. Names are not unique; ids are. An app stores and compares ids, and does not look into them.
    public struct ID: TextIdentifier {
        private static let maximumBytes = 128

        /// The text form.
        public let description: String

        /// Parses the text form; `nil` if no device can have it as its id: an id has 1 to 128 printable ASCII characters.
        public init?(_ description: String) {
            guard (1...Self.maximumBytes).contains(description.utf8.count), description.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
            else { return nil }
            self.description = description
        }

        /// The id of a device whose endpoints share a system key.
        package init(_ system: SystemID) { description = system.description }

        /// The first 8 characters: a label for people and logs, never a proof.
        public var label: String { String(description.prefix(8)) }

        /// Compares the bytes of the text forms.
        public static func < (left: Self, right: Self) -> Bool { left.description.utf8.lexicographicallyPrecedes(right.description.utf8) }
    }

    /// The device's id.
    public let id: ID
    /// The account of the device, by the app's id of that account.
    public let accountID: String
    /// The name that the user gave the device.
    public let displayName: String
    /// The kind of device; for display, not to infer what it can do.
    public let kind: RemoteSystemKind
    /// The operating system.
    public let platform: RemoteSystemPlatform
    /// The manufacturer, if known.
    public let manufacturer: String?
    /// The model, if known.
    public let model: String?
    /// The reachability, its reason and its start: the best of the device's endpoints.
    public let presence: Presence
    /// The addressable apps on the device, sorted by id.
    public let apps: [RemoteSystemApp]
    /// Whether no endpoint of the device is confirmed. A new device may not be what its name says.
    public let isNew: Bool
    /// Whether the device is verified: by the proof of an invitation, because users compared its id, or by the voucher of a
    /// device that verified it. A device that is neither new nor verified was listed by the relay when this device joined,
    /// and no user has checked it.
    public let isVerified: Bool
    /// How it joined the account; `nil` if the relay does not say.
    public let joining: RemoteSystemJoining?
    /// Whether this app runs on the device.
    public let isLocal: Bool
    /// Whether it seems to be on this network, or was connected over it in the last minutes.
    public let isAvailableByProximity: Bool

    /// Whose device it is.
    public var authorizationKind: RemoteSystemAuthorizationKind { accountID == AnonymousAccount.id ? .anonymous : .sameUser }

    /// Whether it can be reached now.
    public var status: RemoteSystemStatus { presence.state }
}

/// An app on another device.
public struct RemoteSystemApp: Hashable, Sendable, Identifiable {
    /// One app of one installation.
    public struct ID: Hashable, Sendable {
        /// The endpoint that published the app.
        public let endpoint: EndpointID
        /// The app's id.
        public let appID: String

        /// Creates an id from an endpoint and an app id.
        public init(endpoint: EndpointID, appID: String) {
            self.endpoint = endpoint
            self.appID = appID
        }
    }

    /// The endpoint and the app.
    public let id: ID
    /// The device of the app.
    public let systemID: RemoteSystem.ID
    /// The account of the device, by the app's id of that account.
    public let accountID: String
    /// The display name; may be empty.
    public let displayName: String
    /// Attributes that the app publishes.
    public let attributes: [String: String]
    /// The URI schemes for which it accepts launches, in lower case.
    public let schemes: [String]
    /// The app services that it offers.
    public let appServices: [AppServiceInfo]
    /// The cross-device app identity that it belongs to. Only apps of the same identity, and those in `allowedApps`, may use it. `nil` if it
    /// has none, and then every app may.
    public let identity: String?
    /// The ids of apps of other identities that may use it.
    public let allowedApps: [String]
    /// The reachability of its endpoint.
    public let presence: Presence
    /// Whether its endpoint is not confirmed.
    public let isNew: Bool
    /// Whether its endpoint is verified: see `RemoteSystem.isVerified`.
    public let isVerified: Bool
    /// How its endpoint joined the account; `nil` if the relay does not say.
    public let joining: RemoteSystemJoining?

    /// The app's id, called package id in the original.
    public var appID: String { id.appID }
    /// The endpoint that published it.
    public var endpoint: EndpointID { id.endpoint }
}

/// Identifies an app service by its name and its app.
public struct AppServiceInfo: Hashable, Sendable {
    /// The service's name.
    public let name: String
    /// The id of the app that offers it.
    public let appID: String

    /// Creates an identifier from a service's name and its app's id.
    public init(name: String, appID: String) {
        self.name = name
        self.appID = appID
    }
}

/// The target of a launch or connection: a device, or one app on it. It holds ids only and is resolved when it is used.
public struct RemoteSystemConnectionRequest: Hashable, Sendable {
    package enum Target: Hashable, Sendable {
        case system(RemoteSystem.ID)
        case app(RemoteSystemApp.ID)
    }

    package let target: Target
    /// The account to use; `nil` for any account that knows the target.
    package let accountID: String?

    /// Targets a device. The URI or service decides which of its apps gets the request.
    public init(_ system: RemoteSystem) { (target, accountID) = (.system(system.id), system.accountID) }

    /// Targets an app.
    public init(_ app: RemoteSystemApp) { (target, accountID) = (.app(app.id), app.accountID) }

    /// Targets a device by its id.
    /// - Parameters:
    ///   - systemID: The device.
    ///   - accountID: The account to use; `nil` for any account that knows the device.
    public init(systemID: RemoteSystem.ID, accountID: String? = nil) { (target, self.accountID) = (.system(systemID), accountID) }

    /// Targets an app by its endpoint and id.
    /// - Parameters:
    ///   - endpoint: The endpoint that published the app.
    ///   - appID: The app.
    ///   - accountID: The account to use; `nil` for any account that knows the endpoint.
    public init(endpoint: EndpointID, appID: String, accountID: String? = nil) {
        (target, self.accountID) = (.app(RemoteSystemApp.ID(endpoint: endpoint, appID: appID)), accountID)
    }
}

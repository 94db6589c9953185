// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A device as a person sees it: one piece of hardware, with the apps on it. A value: what it was when it was read.
public struct RemoteSystem: Hashable, Sendable, Identifiable {
    /// Names the hardware. Two devices may bear one name; never one id.
    public let id: SystemID
    /// The account it was found with, by the app's id of it.
    public let accountID: String
    /// The name its person gave it.
    public let displayName: String
    /// What sort of device it is; for display, not to decide what it can do.
    public let kind: RemoteSystemKind
    /// The operating system.
    public let platform: RemoteSystemPlatform
    /// Who made it, where that is known.
    public let manufacturer: String?
    /// Which model it is, where that is known.
    public let model: String?
    /// Whether it can be reached, why, and since when: the best of its endpoints.
    public let presence: Presence
    /// The apps on it that can be addressed, in the order of their ids.
    public let apps: [RemoteSystemApp]
    /// Nobody has confirmed anything on it yet: it may not be what its name says.
    public let isNew: Bool
    /// It is known by the proof of an invitation, because people compared words, or by the voucher of a device that knows it so. What is
    /// neither new nor verified was listed by the relay when this device joined, and no person has checked that it is what its name says.
    public let isVerified: Bool
    /// How it came into the account; `nil` if the relay does not say.
    public let joining: RemoteSystemJoining?
    /// This app runs on it.
    public let isLocal: Bool

    /// Whether it can be reached now.
    public var status: RemoteSystemStatus { presence.state }
}

/// An app on another device.
public struct RemoteSystemApp: Hashable, Sendable, Identifiable {
    /// One app of one installation.
    public struct ID: Hashable, Sendable {
        /// The installation that published the app.
        public let endpoint: EndpointID
        /// The app.
        public let appID: String

        /// The app of an endpoint.
        public init(endpoint: EndpointID, appID: String) {
            self.endpoint = endpoint
            self.appID = appID
        }
    }

    /// The endpoint and the app.
    public let id: ID
    /// The device it is on.
    public let systemID: SystemID
    /// The account it was found with, by the app's id of it.
    public let accountID: String
    /// The name for people; may be empty.
    public let displayName: String
    /// What the app tells of itself.
    public let attributes: [String: String]
    /// The URI schemes that it takes launches for, in lower case.
    public let schemes: [String]
    /// The app services that it offers.
    public let appServices: [AppServiceInfo]
    /// Whether its endpoint can be reached.
    public let presence: Presence
    /// Nobody has confirmed its endpoint yet.
    public let isNew: Bool
    /// Its endpoint is known by more than that it was there when this device joined: see `RemoteSystem.isVerified`.
    public let isVerified: Bool
    /// How its endpoint came into the account; `nil` if the relay does not say.
    public let joining: RemoteSystemJoining?

    /// The app's id, in the original its package id.
    public var appID: String { id.appID }
    /// The endpoint that published it.
    public var endpoint: EndpointID { id.endpoint }
    /// Whether it is found on the local network; so far everything is found through the relay.
    public var isAvailableByProximity: Bool { false }
    /// Whether it is found by Bluetooth; so far everything is found through the relay.
    public var isAvailableBySpatialProximity: Bool { false }
}

/// Names an app service: a service of an app.
public struct AppServiceInfo: Hashable, Sendable {
    /// The service's name.
    public let name: String
    /// The id of the app that offers it.
    public let packageID: String

    /// The service of that name of that app.
    public init(name: String, packageID: String) {
        self.name = name
        self.packageID = packageID
    }
}

/// What a launch or connection is meant for: a device, or one app on it. Holds ids only, and is resolved when it is used.
public struct RemoteSystemConnectionRequest: Hashable, Sendable {
    package enum Target: Hashable, Sendable {
        case system(SystemID)
        case app(RemoteSystemApp.ID)
    }

    package let target: Target
    /// The account to go by; `nil` for whichever knows the target.
    package let accountID: String?

    /// A device: which of its apps is found by what is asked of it.
    public init(_ system: RemoteSystem) { (target, accountID) = (.system(system.id), system.accountID) }

    /// An app.
    public init(_ app: RemoteSystemApp) { (target, accountID) = (.app(app.id), app.accountID) }

    /// A device, by its id.
    /// - Parameters:
    ///   - systemID: The device.
    ///   - accountID: The account to go by; `nil` for whichever knows the device.
    public init(systemID: SystemID, accountID: String? = nil) { (target, self.accountID) = (.system(systemID), accountID) }

    /// An app, by its endpoint and id.
    /// - Parameters:
    ///   - endpoint: The endpoint that the app is on.
    ///   - appID: The app.
    ///   - accountID: The account to go by; `nil` for whichever knows the endpoint.
    public init(endpoint: EndpointID, appID: String, accountID: String? = nil) {
        (target, self.accountID) = (.app(RemoteSystemApp.ID(endpoint: endpoint, appID: appID)), accountID)
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol

/// The endpoint that opened an app service connection. Its key proves the endpoint; its signed record states the rest.
public struct AppServiceCaller: Hashable, Sendable {
    /// The app's id of the account that both devices belong to.
    public let accountID: String
    /// The name of the caller's device.
    public let deviceName: String
    /// The id of the caller's device.
    public let systemID: RemoteSystem.ID
    /// The caller's endpoint on that device.
    public let endpoint: EndpointID
    /// The calling app's id, as the caller states it. It is not proved. `nil` if the caller does not state one.
    public let appID: String?
    /// Whether the caller's endpoint is new: it is not confirmed yet.
    public let isNew: Bool

    /// Whether the caller's device is another person's, and was paired with this one.
    public var isPaired: Bool { accountID == AnonymousAccount.id && !isStranger }

    /// Whether nothing is known of the caller but its key: its name is its own claim, and its device's id is that of its endpoint. Only what
    /// `ConnectedDevicesPlatform.offerReception(_:)` receives has such callers.
    public let isStranger: Bool

    package init(accountID: String, deviceName: String, systemID: RemoteSystem.ID, endpoint: EndpointID, appID: String?, isNew: Bool) {
        self.accountID = accountID
        self.deviceName = deviceName
        self.systemID = systemID
        self.endpoint = endpoint
        self.appID = appID
        self.isNew = isNew
        isStranger = false
    }
}

extension AppServiceCaller {
    /// An endpoint of which nothing is known.
    /// - Parameter name: What it calls itself; empty before it has said so.
    init(stranger endpoint: EndpointID, name: String = "") {
        accountID = AnonymousAccount.id
        deviceName = name
        systemID = RemoteSystem.ID(SystemID(digest: endpoint.digest))
        self.endpoint = endpoint
        appID = nil
        isNew = true
        isStranger = true
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol

/// Who opened an app service connection, as the caller's key proved and its signed record says.
public struct AppServiceCaller: Hashable, Sendable {
    /// The account that both devices belong to, by the app's id for it.
    public let accountID: String
    /// The name of the caller's device.
    public let deviceName: String
    /// The caller's device.
    public let systemID: SystemID
    /// The installation on it that calls.
    public let endpoint: EndpointID
    /// The app that calls, as it calls itself: a hint, no proof. `nil` if it does not say.
    public let appID: String?
    /// Nobody has confirmed the caller's endpoint yet.
    public let isNew: Bool

    package init(accountID: String, deviceName: String, systemID: SystemID, endpoint: EndpointID, appID: String?, isNew: Bool) {
        self.accountID = accountID
        self.deviceName = deviceName
        self.systemID = systemID
        self.endpoint = endpoint
        self.appID = appID
        self.isNew = isNew
    }
}

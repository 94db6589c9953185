// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// An app as other devices see it, and what it does for them. A value: publishing it again replaces it as a whole.
public struct RemoteSystemAppRegistration: Sendable {
    /// Names the app on every device, for example in reverse DNS form: 1 to 256 characters of visible ASCII.
    public var appID: String
    /// The name for people; at most 64 characters, and may be empty.
    public var displayName: String
    /// What the app tells of itself; at most 32.
    public var attributes: [String: String]
    /// What it does when a URI is launched; `nil` if it takes none.
    public var launching: Launching?
    /// The app services that it offers; at most 32.
    public var services: [Service]

    /// An app.
    public init(
        appID: String,
        displayName: String = "",
        attributes: [String: String] = [:],
        launching: Launching? = nil,
        services: [Service] = []
    ) {
        self.appID = appID
        self.displayName = displayName
        self.attributes = attributes
        self.launching = launching
        self.services = services
    }

    /// What others are told of it.
    func content(version: UInt64, account: String, endpoint: EndpointID) -> AppRegistration {
        AppRegistration(
            version: version,
            account: account,
            endpoint: endpoint,
            appID: appID,
            displayName: displayName,
            attributes: attributes,
            schemes: (launching?.schemes ?? []).map { .init(name: $0, isDefault: launching?.defaultFor.contains($0) ?? false) },
            services: services.map { .init(name: $0.name, allowedApps: $0.allowedApps) }
        )
    }
}

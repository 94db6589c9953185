// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Narrows the devices of a watcher. A device must pass one filter of each kind that is present. Without filters a
/// watcher shows the devices of the same user, without the watching app itself.
public enum RemoteSystemFilter: Hashable, Sendable {
    /// How the device was found.
    case discoveryType(RemoteSystemDiscoveryType)
    /// Its reachability.
    case status(RemoteSystemStatusType)
    /// Its kind.
    case kinds(Set<RemoteSystemKind>)
    /// Its user.
    case authorizationKind(RemoteSystemAuthorizationKind)
    /// Its operating system.
    case platform(RemoteSystemPlatform)
    /// Its account, by the account's id.
    case account(String)
    /// Whether the watching app's own endpoint is shown.
    case localVisibility(RemoteSystemLocalVisibilityKind)
}

/// How a device was found.
public enum RemoteSystemDiscoveryType: Hashable, Sendable, CaseIterable {
    /// In any way.
    case any
    /// On the local network.
    case proximal
    /// Through the relay.
    case cloud
    /// By Bluetooth.
    case spatiallyProximal
}

/// Filters devices by their status.
public enum RemoteSystemStatusType: Hashable, Sendable, CaseIterable {
    /// All devices.
    case any
    /// Devices that can be reached now.
    case available
}

/// Filters devices by their user.
public enum RemoteSystemAuthorizationKind: Hashable, Sendable, CaseIterable {
    /// Devices of the same account.
    case sameUser
    /// Devices of other users nearby who permit it.
    case anonymous
}

/// Whether the watching app's own endpoint is shown.
public enum RemoteSystemLocalVisibilityKind: Hashable, Sendable, CaseIterable {
    /// It is shown.
    case showAll
    /// It is hidden. Other apps on the same device are shown.
    case hideLocalApp
}

/// Filters, grouped by kind. `nil` means that no filter of the kind is present.
struct RemoteSystemFilterSet: Hashable, Sendable {
    private var discoveryTypes: Set<RemoteSystemDiscoveryType>?
    private var statusTypes: Set<RemoteSystemStatusType>?
    private var kinds: Set<RemoteSystemKind>?
    private var authorizationKinds: Set<RemoteSystemAuthorizationKind>?
    private var platforms: Set<RemoteSystemPlatform>?
    private var accounts: Set<String>?
    /// `showAll` takes precedence over `hideLocalApp`.
    let hidesLocalApp: Bool

    init(_ filters: [RemoteSystemFilter]) {
        var showsAll = false
        for filter in filters {
            switch filter {
            case .discoveryType(let type): discoveryTypes = (discoveryTypes ?? []).union([type])
            case .status(let type): statusTypes = (statusTypes ?? []).union([type])
            case .kinds(let more): kinds = (kinds ?? []).union(more)
            case .authorizationKind(let kind): authorizationKinds = (authorizationKinds ?? []).union([kind])
            case .platform(let platform): platforms = (platforms ?? []).union([platform])
            case .account(let account): accounts = (accounts ?? []).union([account])
            case .localVisibility(let kind): showsAll = showsAll || kind == .showAll
            }
        }
        self.hidesLocalApp = !showsAll
    }

    /// Whether a device that the relay reported for the account passes the filters.
    func matches(_ system: RemoteSystem, account: String) -> Bool {
        if let discoveryTypes, discoveryTypes.isDisjoint(with: [.any, .cloud]) { return false }
        if let statusTypes, !statusTypes.contains(.any), system.status != .available { return false }
        if let kinds, !kinds.contains(system.kind) { return false }
        if let authorizationKinds, !authorizationKinds.contains(.sameUser) { return false }
        if let platforms, !platforms.contains(system.platform) { return false }
        if let accounts, !accounts.contains(account) { return false }
        return true
    }
}

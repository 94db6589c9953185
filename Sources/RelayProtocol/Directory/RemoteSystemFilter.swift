// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Narrows what a watcher shows. Filters of different kinds must all let a device pass; of several of one kind, one is enough.
/// Without filters a watcher shows the devices of the same person, and not the watching app itself.
public enum RemoteSystemFilter: Hashable, Sendable {
    /// How the device was found.
    case discoveryType(RemoteSystemDiscoveryType)
    /// Whether it can be reached.
    case status(RemoteSystemStatusType)
    /// What sort of device it is.
    case kinds(Set<RemoteSystemKind>)
    /// Whose it is.
    case authorizationKind(RemoteSystemAuthorizationKind)
    /// Its operating system.
    case platform(RemoteSystemPlatform)
    /// The account it was found with, by the account's id.
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

/// Which devices to show by their status.
public enum RemoteSystemStatusType: Hashable, Sendable, CaseIterable {
    /// All.
    case any
    /// Those that can be reached now.
    case available
}

/// Whose devices to show.
public enum RemoteSystemAuthorizationKind: Hashable, Sendable, CaseIterable {
    /// Those of the same account.
    case sameUser
    /// Those of others nearby, if they allow it.
    case anonymous
}

/// Whether the watching app's own endpoint is shown.
public enum RemoteSystemLocalVisibilityKind: Hashable, Sendable, CaseIterable {
    /// It is.
    case showAll
    /// It is not; other apps on the same device are.
    case hideLocalApp
}

/// Filters made ready to be asked about many devices. `nil` stands for a kind of filter that was not given.
struct RemoteSystemFilterSet: Hashable, Sendable {
    private var discoveryTypes: Set<RemoteSystemDiscoveryType>?
    private var statusTypes: Set<RemoteSystemStatusType>?
    private var kinds: Set<RemoteSystemKind>?
    private var authorizationKinds: Set<RemoteSystemAuthorizationKind>?
    private var platforms: Set<RemoteSystemPlatform>?
    private var accounts: Set<String>?
    /// Showing is more than hiding, so of both it counts.
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

    /// Whether a device passes that was found through the relay with the account.
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

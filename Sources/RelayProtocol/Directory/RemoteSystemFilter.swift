// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Narrows the devices of a watcher. A device must pass one filter of each kind that is present. Without filters a
/// watcher shows the devices of the same user, without the watching app itself.
public struct RemoteSystemFilter: Hashable, Sendable {
    enum Kind: Hashable {
        case status(RemoteSystemStatusType)
        case kinds(Set<RemoteSystemKind>)
        case platform(RemoteSystemPlatform)
        case account(String)
        case localVisibility(RemoteSystemLocalVisibilityKind)
        case discoveryType(RemoteSystemDiscoveryType)
        case authorizationKind(RemoteSystemAuthorizationKind)
    }

    let kind: Kind

    /// Devices by their reachability.
    public static func status(_ type: RemoteSystemStatusType) -> Self { Self(kind: .status(type)) }
    /// Devices of these kinds.
    public static func kinds(_ kinds: Set<RemoteSystemKind>) -> Self { Self(kind: .kinds(kinds)) }
    /// Devices with this operating system.
    public static func platform(_ platform: RemoteSystemPlatform) -> Self { Self(kind: .platform(platform)) }
    /// Devices of an account, by the app's id of the account.
    public static func account(_ id: String) -> Self { Self(kind: .account(id)) }
    /// Devices by the way to them.
    public static func discoveryType(_ type: RemoteSystemDiscoveryType) -> Self { Self(kind: .discoveryType(type)) }
    /// Devices of the same person, or of others. Without a filter of this kind only those of the same person are shown.
    public static func authorizationKind(_ kind: RemoteSystemAuthorizationKind) -> Self { Self(kind: .authorizationKind(kind)) }
    /// Whether the watching app's own endpoint is shown.
    public static func localVisibility(_ kind: RemoteSystemLocalVisibilityKind) -> Self { Self(kind: .localVisibility(kind)) }
}

/// Filters devices by their status.
public struct RemoteSystemStatusType: Hashable, Sendable {
    private enum Name { case any, available }
    private let name: Name

    /// All devices.
    public static let any = Self(name: .any)
    /// Devices that can be reached now.
    public static let available = Self(name: .available)
}

/// The way to a device.
public struct RemoteSystemDiscoveryType: Hashable, Sendable {
    private enum Name { case any, proximal, cloud }
    private let name: Name

    /// Any way.
    public static let any = Self(name: .any)
    /// It is on this network.
    public static let proximal = Self(name: .proximal)
    /// A relay leads to it.
    public static let cloud = Self(name: .cloud)
}

/// Whose device it is.
public struct RemoteSystemAuthorizationKind: Hashable, Sendable {
    private enum Name { case sameUser, anonymous }
    private let name: Name

    /// It belongs to an account of this person.
    public static let sameUser = Self(name: .sameUser)
    /// It is another person's, and was paired with this device.
    public static let anonymous = Self(name: .anonymous)
}

/// The account of the devices that were paired with this one. It has no relay, and no relay may assign it.
package enum AnonymousAccount {
    /// Its id for apps, and in signed records.
    package static let id = "anonymous"
}

/// Whether the watching app's own endpoint is shown.
public struct RemoteSystemLocalVisibilityKind: Hashable, Sendable {
    private enum Name { case showAll, hideLocalApp }
    private let name: Name

    /// It is shown.
    public static let showAll = Self(name: .showAll)
    /// It is hidden. Other apps on the same device are shown.
    public static let hideLocalApp = Self(name: .hideLocalApp)
}

/// Filters, grouped by kind. `nil` means that no filter of the kind is present.
struct RemoteSystemFilterSet: Hashable, Sendable {
    private var statusTypes: Set<RemoteSystemStatusType>?
    private var kinds: Set<RemoteSystemKind>?
    private var platforms: Set<RemoteSystemPlatform>?
    private var accounts: Set<String>?
    private var discoveryTypes: Set<RemoteSystemDiscoveryType>?
    private var authorizationKinds: Set<RemoteSystemAuthorizationKind>?
    /// `showAll` takes precedence over `hideLocalApp`.
    let hidesLocalApp: Bool

    init(_ filters: [RemoteSystemFilter]) {
        var showsAll = false
        for filter in filters {
            switch filter.kind {
            case .status(let type): statusTypes = (statusTypes ?? []).union([type])
            case .kinds(let more): kinds = (kinds ?? []).union(more)
            case .platform(let platform): platforms = (platforms ?? []).union([platform])
            case .account(let account): accounts = (accounts ?? []).union([account])
            case .discoveryType(let type): discoveryTypes = (discoveryTypes ?? []).union([type])
            case .authorizationKind(let kind): authorizationKinds = (authorizationKinds ?? []).union([kind])
            case .localVisibility(let kind): showsAll = showsAll || kind == .showAll
            }
        }
        self.hidesLocalApp = !showsAll
    }

    /// Whether a device that the relay reported for the account passes the filters.
    func matches(_ system: RemoteSystem, account: String) -> Bool {
        if let statusTypes, !statusTypes.contains(.any), system.status != .available { return false }
        if let kinds, !kinds.contains(system.kind) { return false }
        if let platforms, !platforms.contains(system.platform) { return false }
        if let accounts, !accounts.contains(account) { return false }
        guard (authorizationKinds ?? [.sameUser]).contains(system.authorizationKind) else { return false }
        if let discoveryTypes, !discoveryTypes.contains(.any) {
            let isProximal = discoveryTypes.contains(.proximal) && system.isAvailableByProximity
            guard isProximal || discoveryTypes.contains(.cloud) && system.authorizationKind == .sameUser else { return false }
        }
        return true
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay

/// Which devices are listed. One choice of each kind; all kinds must match.
struct DeviceFilters: Hashable, Sendable {
    enum Way: String, CaseIterable, Identifiable {
        case any, network, relay

        var id: Self { self }
        var label: String {
            switch self {
            case .any: "Any way"
            case .network: "On this network"
            case .relay: "Through the relay"
            }
        }
    }

    static let kinds: [RemoteSystemKind] = [.phone, .tablet, .laptop, .desktop, .hub, .xbox, .holographic, .iot]
    static let platforms: [RemoteSystemPlatform] = [.iOS, .macOS, .linux, .windows, .android]

    /// `nil` for all.
    var kind: RemoteSystemKind?
    /// `nil` for all.
    var platform: RemoteSystemPlatform?
    var way = Way.any
    var isAvailableOnly = false
    /// The original's samples show the calling app, too.
    var showsThisDevice = false

    /// The filters of the SDK.
    var filters: [RemoteSystemFilter] {
        var filters: [RemoteSystemFilter] = [.localVisibility(showsThisDevice ? .showAll : .hideLocalApp)]
        if let kind { filters.append(.kinds([kind])) }
        if let platform { filters.append(.platform(platform)) }
        if isAvailableOnly { filters.append(.status(.available)) }
        switch way {
        case .any: break
        case .network: filters.append(.discoveryType(.proximal))
        case .relay: filters.append(.discoveryType(.cloud))
        }
        return filters
    }
}

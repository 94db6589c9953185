// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Observation

/// Finds the devices of the account. The original's watcher with its events.
@MainActor @Observable final class DeviceList {
    var filters = DeviceFilters()
    private(set) var rows: [DeviceRow] = []
    /// Whether all devices known so far are listed.
    private(set) var isComplete = false
    /// The last error of discovery, which continues all the same.
    private(set) var notice: Notice?

    private let platform: ConnectedDevicesPlatform

    init(_ platform: ConnectedDevicesPlatform) { self.platform = platform }

    /// Text in place of an empty list; `nil` if there are devices.
    var placeholder: String? {
        guard rows.isEmpty else { return nil }
        guard isComplete else { return "Looking for devices …" }
        return filters == DeviceFilters() ? "No other device yet. Sign in on a second one." : "No device passes the filters."
    }

    /// Follows the devices that pass the filters until the task is cancelled. A view calls it again when the filters change.
    func watch() async {
        (rows, isComplete, notice) = ([], false, nil)
        for await event in platform.remoteSystems(matching: filters.filters) {
            guard !Task.isCancelled else { return }
            apply(event)
        }
    }

    /// The device of an id, as it is now; `nil` if it is gone or filtered out.
    func row(_ id: RemoteSystem.ID) -> DeviceRow? { rows.first { $0.id == id } }

    private func apply(_ event: RemoteSystemEvent) {
        switch event {
        case .added(let system), .updated(let system):
            // Names are not unique: the original's sample lost devices by them.
            rows.removeAll { $0.id == system.id }
            let place = rows.firstIndex { ($0.name, $0.id) > (system.displayName, system.id) } ?? rows.endIndex
            rows.insert(DeviceRow(system: system), at: place)
        case .removed(let system): rows.removeAll { $0.id == system.id }
        case .enumerationCompleted: isComplete = true
        case .error(let error): notice = Notice(error)
        @unknown default: break
        }
    }
}

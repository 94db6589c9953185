// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Synchronization

/// The devices as they were printed last. Makes one sequence of events from those of several sources, which each begin with the whole list.
final class WatchedDevices: Sendable {
    private struct Known {
        var device: DeviceResult
        /// What was printed. Dates of two sources may differ below what is printed.
        var text: String
        /// Whether the present source has named it.
        var isConfirmed: Bool
    }

    private let known = Mutex<[String: Known]>([:])

    /// A source begins. What it does not name until its list is complete is gone.
    func begin() { known.withLock { for id in $0.keys { $0[id]?.isConfirmed = false } } }

    /// - Returns: What is new in an event.
    func take(_ event: Watch.Event) -> [Watch.Event] {
        known.withLock { known in
            switch event.event {
            case .added, .updated:
                guard let device = event.device, let text = try? JSONText.line(device) else { return [event] }
                let before = known.updateValue(Known(device: device, text: text, isConfirmed: true), forKey: device.id)
                guard let before else { return [Watch.Event(.added, device)] }
                return before.text == text ? [] : [Watch.Event(.updated, device)]
            case .removed:
                guard let id = event.device?.id, known.removeValue(forKey: id) != nil else { return [] }
                return [event]
            case .enumerationCompleted:
                let gone = known.values.filter { !$0.isConfirmed }.map(\.device)
                for device in gone { known[device.id] = nil }
                return gone.map { Watch.Event(.removed, $0) } + [event]
            case .joined, .error: return [event]
            }
        }
    }
}

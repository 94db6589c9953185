// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol
import Synchronization

/// Looks for the devices on this network that a person has made visible.
struct VisibleSearch: Sendable {
    /// How long devices on the network may take to answer.
    static let patience = Duration.seconds(6)
    /// The same, where it is not certain that one is visible.
    static let shortPatience = Duration.seconds(3)
    /// How much longer than the first one others may take.
    private static let more = Duration.milliseconds(700)

    let mode: VisibleDevice.Mode
    /// The name, or the id that `relay nearby` shows; `nil` for any.
    let name: String?

    struct Found: Sendable {
        /// Those that fit.
        var fitting: [VisibleDevice]
        /// Those of the mode.
        var all: [VisibleDevice]
    }

    /// Waits for the first device that fits, and a moment for others like it.
    func run(on local: LocalDevice, patience: Duration = Self.patience) async throws -> Found {
        let all = try await local.whileWaiting {
            "looking for the other device"
        } _: {
            try await local.platform.withVisibleDevices { changes in
                let first = try await Self.devices(in: changes, within: patience) { devices in devices.contains(where: fits) }
                return first.contains(where: fits) ? try await Self.devices(in: changes, within: Self.more) { _ in false } : first
            }
        }.filter { $0.mode == mode }
        return Found(fitting: all.filter(fits), all: all)
    }

    private func fits(_ device: VisibleDevice) -> Bool {
        guard device.mode == mode else { return false }
        guard let name else { return true }
        let wanted = Array(name.lowercased().utf8)
        return wanted.elementsEqual(device.name.lowercased().utf8) || wanted.elementsEqual(device.id.lowercased().utf8)
    }

    /// The devices that are seen in a time, or as soon as they are enough.
    private static func devices(
        in changes: AsyncValues<[VisibleDevice]>,
        within patience: Duration,
        until areEnough: @escaping @Sendable ([VisibleDevice]) -> Bool
    ) async throws -> [VisibleDevice] {
        let last = Mutex<[VisibleDevice]>([])
        _ = try await RelayAgent.within(patience) {
            for await devices in changes {
                last.withLock { $0 = devices }
                if areEnough(devices) { return true }
            }
            return nil
        }
        return last.withLock { $0 }
    }
}

extension AgentContext {
    /// This device, which needs no account: without one it has a name for the time being, of which nothing is kept.
    /// - Parameter name: The name of a device that has no account; `nil` for the host name.
    func anyDevice(named name: String? = nil) throws -> Membership {
        let device = DeviceDescription.thisDevice
        guard let stored = try home.storedMembership() else {
            return Membership(withoutRelay: try Membership.checked(name ?? device.name), kind: device.kind)
        }
        if let name, !stored.name.utf8.elementsEqual(name.utf8) {
            throw AgentError("usage", "this device is called '\(stored.name)'; to rename it, run: relay rename 'NEW NAME'", .usage)
        }
        return try home.membership()
    }
}

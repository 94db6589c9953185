// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayStorage
import Synchronization

extension ConnectedDevicesPlatform {
    /// Renames this device: other devices show the new name, which each account's endpoint signs. From now on the name counts instead of
    /// that in the settings, in all processes with this storage directory, until the last account is removed. Other apps on this device
    /// keep their names: a device with several endpoints shows the name of one of them.
    /// - Parameter name: 1 to 64 characters with a visible one, and without control and bidirectional characters.
    /// - Returns: Whether all relays have the new name. A relay that is not connected gets it on the next connection.
    /// - Throws: `PlatformError`: `invalidSettings` for an invalid name, `storageFailed`, `shutDown` if the platform is not running.
    @discardableResult
    public func rename(_ name: String) async throws(PlatformError) -> Bool {
        guard DeviceDescription.isName(name) else {
            throw PlatformError(
                .invalidSettings,
                "a device's name has 1 to \(Limits()[.displayNameCharacters]) characters, a visible one among them, and no control characters"
            )
        }
        let endpoints: [LocalEndpoint]
        do {
            endpoints = try state.withLock { state in
                guard case .started = state.phase else { throw PlatformError(.shutDown, "the platform is not running") }
                try deviceName.store(name)
                return Array(state.endpoints.values)
            }
        } catch {
            throw PlatformError(error)
        }
        return await withTaskGroup(of: Bool.self) { group in
            for endpoint in endpoints { group.addTask { await endpoint.updateRecord() } }
            return await group.reduce(true) { $0 && $1 }
        }
    }

    var deviceName: DeviceNameFile { DeviceNameFile(settings) }
}

extension DeviceDescription {
    /// Whether other devices accept a device's name.
    static func isName(_ name: String) -> Bool { (try? Limits().checkDisplayName(name, field: "name")) != nil }
}

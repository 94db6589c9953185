// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayStorage

/// The name that a person gave this device with `rename`. It is a file in the storage directory, so that all processes and accounts of the
/// directory use the same name.
struct DeviceNameFile: Sendable {
    private let path: String

    init(_ settings: ConnectedDevicesPlatformSettings) { path = settings.storageDirectory.path + "/device-name" }

    /// The stored name; `nil` if the device was not renamed, or the file is damaged.
    var name: String? {
        guard let bytes = try? PrivateFile.contents(of: path), let name = String(validating: bytes, as: UTF8.self) else { return nil }
        return DeviceDescription.isName(name) ? name : nil
    }

    func store(_ name: String) throws(StorageError) { try PrivateFile.replace(path, with: Array(name.utf8)) }

    func delete() throws(StorageError) { try PrivateFile.delete(path) }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// A directory that is gone when the test is.
final class TemporaryDirectory: Sendable {
    let path: String

    init() throws {
        path = FileManager.default.temporaryDirectory.appendingPathComponent("device-relay-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    func storage(_ name: String = "storage") throws -> StorageDirectory {
        try StorageDirectory(path: "\(path)/\(name)", systemKey: SystemKeyFile(path: "\(path)/config/device-relay/system.key"))
    }

    /// Everything below, with its mode.
    func modes() throws -> [String: Int] {
        var modes: [String: Int] = [:]
        for name in try FileManager.default.subpathsOfDirectory(atPath: path) {
            let mode = try FileManager.default.attributesOfItem(atPath: "\(path)/\(name)")[.posixPermissions] as? NSNumber
            modes[name] = mode?.intValue
        }
        return modes
    }
}

extension AccountScope {
    static func sample(_ accountID: String = "me") -> AccountScope {
        AccountScope(relay: RelayID(P256SigningKey.sampleRelay.publicKey), accountID: accountID)
    }
}

extension P256SigningKey {
    static let sampleRelay = P256SigningKey()
}

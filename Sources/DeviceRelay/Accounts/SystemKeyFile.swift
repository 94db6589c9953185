// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
package import RelayProtocol
package import RelayStorage

/// The key that identifies this device. All platforms of a user on one machine share the file.
package struct SystemKeyFile: Sendable {
    private let path: String

    package init(path: String) { self.path = path }

    /// The file in the user's configuration directory.
    package static var shared: SystemKeyFile {
        SystemKeyFile(path: configurationDirectory.map { "\($0)/device-relay/system.key" } ?? "")
    }

    /// `nil` if the user's home folder is not known.
    private static var configurationDirectory: String? {
        #if canImport(Darwin)
        return URL.applicationSupportDirectory.path
        #else
        // The XDG base directory specification requires that a relative path is ignored.
        let environment = ProcessInfo.processInfo.environment
        if let set = environment["XDG_CONFIG_HOME"], set.utf8.first == UInt8(ascii: "/") { return set }
        return HomeDirectory.path(environment: environment).map { $0 + "/.config" }
        #endif
    }

    /// Reads the key, or creates it. Concurrent calls get the same key.
    package func load() throws(StorageError) -> any SystemKey {
        guard !path.isEmpty else { throw StorageError(.homeUnknown, path: "XDG_CONFIG_HOME") }
        if let key = try read() { return key }
        let directory = String(path[..<(path.utf8.lastIndex(of: UInt8(ascii: "/")) ?? path.endIndex)])
        try PrivateDirectory.makeAll(directory)
        let key = P256SigningKey()
        if try PrivateFile.create(path, with: key.rawRepresentation) { return key }
        guard let key = try read() else { throw StorageError(.notReadable, path: path) }
        return key
    }

    private func read() throws(StorageError) -> P256SigningKey? {
        guard let bytes = try PrivateFile.contents(of: path) else { return nil }
        guard let key = try? P256SigningKey(rawRepresentation: bytes) else { throw StorageError(.damaged, path: path) }
        return key
    }
}

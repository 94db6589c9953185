// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The key that says which device this is. All platforms of one user on one machine share its file.
package struct SystemKeyFile: Sendable {
    private let path: String

    package init(path: String) { self.path = path }

    /// In the user's configuration directory.
    package static var shared: SystemKeyFile { SystemKeyFile(path: "\(configurationDirectory)/device-relay/system.key") }

    private static var configurationDirectory: String {
        #if canImport(Darwin)
        return URL.applicationSupportDirectory.path
        #else
        // The XDG base directory specification: a path that is not absolute is to be ignored.
        let environment = ProcessInfo.processInfo.environment
        return if let set = environment["XDG_CONFIG_HOME"], set.utf8.first == UInt8(ascii: "/") {
            set
        } else if let home = environment["HOME"], home.utf8.first == UInt8(ascii: "/") {
            "\(home)/.config"
        } else {
            "\(URL.homeDirectory.path)/.config"
        }
        #endif
    }

    /// Reads the key, or makes it. Of several that make it at once, all get the same.
    package func load() throws(StorageError) -> any SystemKey {
        if let key = try read() { return key }
        let directory = String(path[..<(path.utf8.lastIndex(of: UInt8(ascii: "/")) ?? path.endIndex)])
        try PrivateFile.makeDirectories(directory)
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

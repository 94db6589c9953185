// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation

/// Nodes of one relay on a PostgreSQL database. Endpoints may dial each of them. For tests only.
package struct RelayNodes: Sendable {
    package let ports: [Int]

    package init(_ count: Int) throws { ports = try (0..<count).map { _ in try FreePort.take() } }

    /// The flags of a node.
    package func arguments(_ number: Int, store: String) -> [String] {
        ports.flatMap { ["--url", "http://127.0.0.1:\($0)"] } + ["--store", store, "--node-url", "http://127.0.0.1:\(ports[number])"]
    }

    /// Gives a node the keys that all of them have.
    package static func copyKeys(from first: RelaydProcess, to directory: URL) throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        for name in ["relay.key", "issuer.key"] {
            try FileManager.default.copyItem(at: first.directory.appending(path: name), to: directory.appending(path: name))
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation

/// A mounted disk of a few megabytes that can be filled or made read-only. Only root can mount it.
package final class SmallDisk {
    package struct Failed: Error {
        package var message: String
    }

    package static let isPossible = (try? SmallDisk(megabytes: 1)) != nil

    package let directory = FileManager.default.temporaryDirectory.appending(path: "disk-\(UUID().uuidString)")
    private var filler: URL { directory.appending(path: "filler") }

    package init(megabytes: Int) throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        do {
            try Self.run("mount", "-t", "tmpfs", "-o", "size=\(megabytes)m,mode=700", "none", directory.path)
        } catch {
            try? FileManager.default.removeItem(at: directory)
            throw error
        }
    }

    deinit {
        // A lazy unmount keeps the disk for processes that still use it.
        try? Self.run("umount", "--lazy", directory.path)
        try? FileManager.default.removeItem(at: directory)
    }

    /// Fills the disk completely.
    package func fill() throws {
        guard FileManager.default.createFile(atPath: filler.path, contents: nil) else { throw Failed(message: "it is full already") }
        let handle = try FileHandle(forWritingTo: filler)
        for size in [64 << 10, 4 << 10, 1] {
            do {
                while true { try handle.write(contentsOf: Data(repeating: 7, count: size)) }
            } catch {
                // Until a write fails.
            }
        }
        try handle.close()
    }

    package func makeRoom() throws { try FileManager.default.removeItem(at: filler) }

    /// No file may be open for writing.
    package func setReadOnly(_ isReadOnly: Bool) throws {
        try Self.run("mount", "-o", "remount,\(isReadOnly ? "ro" : "rw")", directory.path)
    }

    private static func run(_ command: String...) throws {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = command
        process.standardError = FileHandle.nullDevice
        try ProcessStart.alone { try process.run() }
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failed(message: "\(command) ended with \(process.terminationStatus)") }
    }
}

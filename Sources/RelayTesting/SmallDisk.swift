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
            try Self.check(mount("none", directory.path, "tmpfs", 0, "size=\(megabytes)m,mode=700"))
        } catch {
            try? FileManager.default.removeItem(at: directory)
            throw error
        }
    }

    deinit {
        // A lazy unmount keeps the disk for processes that still use it.
        umount2(directory.path, CInt(MNT_DETACH))
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
        try Self.check(mount(nil, directory.path, nil, UInt(MS_REMOUNT | (isReadOnly ? MS_RDONLY : 0)), nil))
    }

    private static func check(_ result: Int32) throws {
        if result != 0 { throw Failed(message: String(cString: strerror(errno))) }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayStorage

/// Reads small files whole, and large ones not at all.
enum BoundedFile {
    /// The content of a regular file, also behind a link; `nil` if it is missing, of another kind, or larger.
    static func contents(at path: String, largest: Int) -> [UInt8]? {
        // A pipe must not be waited for.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        guard let facts = FileFacts(descriptor), facts.isFile, facts.size <= largest else { return nil }
        return contents(of: descriptor, largest: largest)
    }

    /// The content of an open file; `nil` if it cannot be read or is larger.
    static func contents(of descriptor: Int32, largest: Int) -> [UInt8]? {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 1 << 16)
        while bytes.count <= largest {
            let count = pread(descriptor, &chunk, chunk.count, off_t(bytes.count))
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return count == 0 ? bytes : nil }
            bytes += chunk[..<count]
        }
        return nil
    }
}

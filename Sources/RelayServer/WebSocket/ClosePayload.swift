// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

extension ByteBuffer {
    /// The payload of a close frame (RFC 6455 §5.5.1), with at most 123 bytes of the reason.
    init(closeCode: UInt16, reason: String) {
        self.init(integer: closeCode)
        writeSubstring(reason.prefix(bytes: 123))
    }
}

extension String {
    /// The longest prefix of complete characters that fits.
    fileprivate func prefix(bytes: Int) -> Substring {
        var end = startIndex
        var count = 0
        for index in indices {
            count += self[index].utf8.count
            guard count <= bytes else { break }
            end = self.index(after: index)
        }
        return self[..<end]
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayStorage

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

extension DigestStream {
    /// What is read at once.
    private static let readBytes = 1 << 20

    /// The digest of the first bytes of a file.
    /// - Throws: `EIO` if it has fewer.
    init(of file: OpenFile, bytes: Int64) throws(SystemError) {
        self.init()
        var position = Int64(0)
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(min(Int64(Self.readBytes), bytes)), alignment: 16)
        defer { memory.deallocate() }
        while position < bytes {
            let part = UnsafeMutableRawBufferPointer(rebasing: memory[..<Int(min(Int64(Self.readBytes), bytes - position))])
            guard try file.read(into: part, from: position) == part.count else { throw SystemError(EIO) }
            add(UnsafeRawBufferPointer(part))
            position += Int64(part.count)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import RelayStorage

/// Reads the content of files as the bytes of a bulk stream.
actor ShareSource {
    /// What is read at once, and so the largest data of a frame.
    private static let readBytes = 256 << 10

    private struct Current {
        let entry: Int
        let file: OpenFile
        let size: Int64
        var position: Int64
        var digest: DigestStream
    }

    private let executor = FileExecutor()
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    private let entries: [ShareCollection.Entry]
    private let have: [Int: ShareMessages.Have]
    private var next = 0
    private var current: Current?
    private var isComplete = false

    /// - Parameter have: What the receiver has from an earlier transfer.
    init(_ entries: [ShareCollection.Entry], have: [Int: ShareMessages.Have]) {
        (self.entries, self.have) = (entries, have)
    }

    /// The next bytes of the stream; `nil` after its end. Small files share a buffer.
    func read() -> ByteBuffer? {
        guard !isComplete else { return nil }
        var buffer = ByteBuffer()
        buffer.reserveCapacity(Self.readBytes + 4 * BulkWire.headerBytes)
        while buffer.readableBytes < Self.readBytes / 2 {
            guard let file = current ?? begin(&buffer) else {
                BulkFrame.complete.write(to: &buffer)
                isComplete = true
                break
            }
            current = nil
            proceed(file, &buffer)
        }
        return buffer
    }

    /// Opens the next file.
    private func begin(_ buffer: inout ByteBuffer) -> Current? {
        while next < entries.count {
            defer { next += 1 }
            let entry = entries[next]
            guard let size = entry.offered.size else { continue }
            guard let file = entry.open() else {
                BulkFrame.abandoned(entry: UInt32(next)).write(to: &buffer)
                continue
            }
            let (position, digest) = there(of: file, size, have[next])
            return Current(entry: next, file: file, size: size, position: position, digest: digest)
        }
        return nil
    }

    /// How much of a file the receiver has already. What it says counts only if it is the beginning of this file.
    private func there(of file: OpenFile, _ size: Int64, _ have: ShareMessages.Have?) -> (Int64, DigestStream) {
        guard let have, have.length > 0, have.length <= size else { return (0, DigestStream()) }
        var (position, digest) = (Int64(0), DigestStream())
        while position < have.length {
            let count = Int(min(Int64(Self.readBytes), have.length - position))
            guard let bytes = try? file.read(from: position, count: count), bytes.count == count else { return (0, DigestStream()) }
            bytes.withUnsafeBytes { digest.add($0) }
            position += Int64(count)
        }
        return digest.digest == have.digest ? (position, digest) : (0, DigestStream())
    }

    /// Adds the next part of a file, or its end.
    private func proceed(_ file: Current, _ buffer: inout ByteBuffer) {
        var file = file
        guard file.position < file.size else {
            // A file that changed in between gives a mix of old and new content.
            guard entries[file.entry].isUnchanged(file.file) else { return abandon(file, &buffer) }
            return BulkFrame.end(entry: UInt32(file.entry), size: UInt64(file.size), file.digest.digest).write(to: &buffer)
        }
        let count = Int(min(Int64(Self.readBytes), file.size - file.position))
        let start = buffer.writerIndex
        BulkFrame.writeHeader(entry: UInt32(file.entry), offset: UInt64(file.position), dataBytes: count, to: &buffer)
        let read = buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: count) { memory in
            let part = UnsafeMutableRawBufferPointer(rebasing: memory[..<count])
            guard let read = try? file.file.read(into: part, from: file.position), read == count else { return 0 }
            file.digest.add(UnsafeRawBufferPointer(part))
            return read
        }
        guard read == count else {
            buffer.moveWriterIndex(to: start)
            return abandon(file, &buffer)
        }
        file.position += Int64(count)
        current = file
    }

    private func abandon(_ file: Current, _ buffer: inout ByteBuffer) {
        BulkFrame.abandoned(entry: UInt32(file.entry)).write(to: &buffer)
    }
}

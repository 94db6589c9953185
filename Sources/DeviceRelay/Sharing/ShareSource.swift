// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
package import RelayStorage

/// Reads the content of files as the bytes of a bulk stream.
package actor ShareSource {
    /// A file to send.
    package struct File: Sendable {
        let entry: UInt32
        /// What the receiver has from an earlier transfer.
        let have: ShareMessages.Have?
        let open: @Sendable () throws -> OpenFile

        /// - Parameter open: Opens the file that the receiver expects.
        package init(entry: UInt32, have: ShareMessages.Have?, open: @escaping @Sendable () throws -> OpenFile) {
            (self.entry, self.have, self.open) = (entry, have, open)
        }
    }

    /// The file is not the one that was opened any more.
    package struct Changed: Error {
        package init() {}
    }

    /// What is read at once, and so the largest data of a frame.
    private static let readBytes = 256 << 10

    private struct Current {
        let entry: UInt32
        let file: OpenFile
        let facts: FileFacts
        var position: Int64
        var digest: DigestStream
    }

    private let executor = FileExecutor()
    package nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    private let files: [File]
    private var next = 0
    /// For what is read while earlier bytes are encrypted.
    private var ring = BufferRing(4)
    private var current: Current?
    /// Why files could not be sent.
    private(set) var abandoned: [UInt32: any Error] = [:]

    init(_ files: [File]) { self.files = files }

    /// Sends all files, on the thread that reads them.
    nonisolated func send(over outbound: NIOAsyncChannelOutboundWriter<ByteBuffer>) async throws {
        try await withTaskExecutorPreference(executor) {
            while let bytes = await read() { try await outbound.write(bytes) }
        }
    }

    /// The next bytes of the stream; `nil` after those of all files. Small files share a buffer.
    func read() -> ByteBuffer? {
        guard current != nil || next < files.count else { return nil }
        return ring.next(minimumCapacity: Self.readBytes + 4 * BulkWire.headerBytes) { buffer in
            while buffer.readableBytes < Self.readBytes / 2, let file = current ?? begin(&buffer) {
                current = nil
                proceed(file, &buffer)
            }
        }
    }

    /// Opens the next file.
    private func begin(_ buffer: inout ByteBuffer) -> Current? {
        while next < files.count {
            let file = files[next]
            next += 1
            do {
                let open = try file.open()
                let facts = try open.facts()
                let (position, digest) = there(of: open, facts.size, file.have)
                return Current(entry: file.entry, file: open, facts: facts, position: position, digest: digest)
            } catch {
                abandon(file.entry, error, &buffer)
            }
        }
        return nil
    }

    /// How much of a file the receiver has already. What it says counts only if it is the beginning of this file.
    private func there(of file: OpenFile, _ size: Int64, _ have: ShareMessages.Have?) -> (Int64, DigestStream) {
        guard let have, have.length > 0, have.length <= size, let digest = try? DigestStream(of: file, bytes: have.length),
            digest.digest == have.digest
        else { return (0, DigestStream()) }
        return (have.length, digest)
    }

    /// Adds the next part of a file, or its end.
    private func proceed(_ file: Current, _ buffer: inout ByteBuffer) {
        var file = file
        let start = buffer.writerIndex
        do {
            guard file.position < file.facts.size else {
                // A file that changed in between gives a mix of old and new content.
                guard try file.file.facts().etag == file.facts.etag else { throw Changed() }
                return BulkFrame.end(entry: file.entry, size: UInt64(file.facts.size), file.digest.digest).write(to: &buffer)
            }
            let count = Int(min(Int64(Self.readBytes), file.facts.size - file.position))
            BulkFrame.writeHeader(entry: file.entry, offset: UInt64(file.position), dataBytes: count, to: &buffer)
            var result = Result<Int, SystemError>.success(0)
            buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: count) { memory in
                let part = UnsafeMutableRawBufferPointer(rebasing: memory[..<count])
                result = Result { () throws(SystemError) in try file.file.read(into: part, from: file.position) }
                guard case .success(count) = result else { return 0 }
                file.digest.add(UnsafeRawBufferPointer(part))
                return count
            }
            guard try result.get() == count else { throw Changed() }
            file.position += Int64(count)
            current = file
        } catch {
            buffer.moveWriterIndex(to: start)
            abandon(file.entry, error, &buffer)
        }
    }

    private func abandon(_ entry: UInt32, _ error: any Error, _ buffer: inout ByteBuffer) {
        abandoned[entry] = error
        BulkFrame.abandoned(entry: entry).write(to: &buffer)
    }
}

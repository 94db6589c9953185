// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
package import RelayStorage

/// Reads the content of files as the bytes of a bulk stream.
package actor ShareSource {
    /// A file to send.
    package struct File: Sendable {
        enum Content: Sendable {
            /// - Parameters:
            ///   - have: What the receiver has from an earlier transfer.
            ///   - offset: Where the content is to begin.
            case disk(have: ShareMessages.Have?, offset: Int64, open: @Sendable () throws -> OpenFile)
            case stream(ShareStream, size: Int64)
        }

        let entry: UInt32
        let content: Content

        /// - Parameters:
        ///   - have: What the receiver has from an earlier transfer.
        ///   - offset: Where the content is to begin, in bytes. The digest at its end is then that of the bytes from there.
        ///   - open: Opens the file that the receiver expects.
        package init(entry: UInt32, have: ShareMessages.Have?, offset: Int64 = 0, open: @escaping @Sendable () throws -> OpenFile) {
            (self.entry, content) = (entry, .disk(have: have, offset: offset, open: open))
        }

        init(entry: UInt32, _ stream: ShareStream, size: Int64) { (self.entry, content) = (entry, .stream(stream, size: size)) }
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
            repeat {
                while let bytes = await read() { try await outbound.write(bytes) }
            } while try await sendStream(over: outbound)
        }
    }

    /// Sends the next file, if its content comes while it is sent.
    private nonisolated func sendStream(over outbound: NIOAsyncChannelOutboundWriter<ByteBuffer>) async throws -> Bool {
        guard let (entry, stream, size) = await nextStream() else { return false }
        var content = BulkContent(size: size)
        var lost: (any Error)?
        var end = ByteBuffer()
        do {
            try await stream.read { data in
                var data = data
                while let part = data.readSlice(length: min(data.readableBytes, Self.readBytes)), part.readableBytes > 0 {
                    var header = ByteBuffer()
                    BulkFrame.writeHeader(entry: entry, offset: UInt64(content.position), dataBytes: part.readableBytes, to: &header)
                    _ = try content.add(part, at: UInt64(content.position))
                    do { try await outbound.write(contentsOf: [header, part]) } catch {
                        lost = error
                        throw error
                    }
                }
            }
            guard content.position == size else { throw Changed() }
            BulkFrame.end(entry: entry, size: UInt64(size), content.digest).write(to: &end)
        } catch {
            if let lost { throw lost }
            try Task.checkCancellation()
            await abandon(entry, error)
            BulkFrame.abandoned(entry: entry).write(to: &end)
        }
        try await outbound.write(end)
        return true
    }

    private func nextStream() -> (entry: UInt32, ShareStream, size: Int64)? {
        guard next < files.count, case .stream(let stream, let size) = files[next].content else { return nil }
        defer { next += 1 }
        return (files[next].entry, stream, size)
    }

    private func abandon(_ entry: UInt32, _ error: any Error) { abandoned[entry] = error }

    /// The next bytes of the stream; `nil` after those of all files, and before a content that comes while it is sent. Small files share a
    /// buffer.
    func read() -> ByteBuffer? {
        guard current != nil || nextOnDisk != nil else { return nil }
        return ring.next(minimumCapacity: Self.readBytes + 4 * BulkWire.headerBytes) { buffer in
            while buffer.readableBytes < Self.readBytes / 2, let file = current ?? begin(&buffer) {
                current = nil
                proceed(file, &buffer)
            }
        }
    }

    private struct OnDisk {
        let entry: UInt32
        let have: ShareMessages.Have?
        let offset: Int64
        let open: @Sendable () throws -> OpenFile
    }

    /// The next file, if it is on the disk.
    private var nextOnDisk: OnDisk? {
        guard next < files.count, case .disk(let have, let offset, let open) = files[next].content else { return nil }
        return OnDisk(entry: files[next].entry, have: have, offset: offset, open: open)
    }

    /// Opens the next file.
    private func begin(_ buffer: inout ByteBuffer) -> Current? {
        while let file = nextOnDisk {
            next += 1
            do {
                let open = try file.open()
                let facts = try open.facts()
                var (position, digest) = there(of: open, facts.size, file.have)
                if file.offset > 0, file.offset <= facts.size { (position, digest) = (file.offset, DigestStream()) }
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

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

/// The constants of a bulk stream: a byte stream of its own between two endpoints, beside their session. It begins with a token that the
/// session has named, and then has frames in one direction.
package enum BulkWire {
    /// The ALPN protocol of the TLS handshake.
    package static let applicationProtocol = "device-relay-bulk/1"
    /// The size of the token that begins the stream.
    package static let tokenBytes = 32
    /// The size of a frame's header: a kind, an entry, an offset and a length.
    package static let headerBytes = 1 + 4 + 8 + 4
    /// The largest data of one frame.
    package static let maximumDataBytes = 1 << 20
}

/// A frame of a bulk stream. Entries are counted from 0 in the order of the offer.
package enum BulkFrame: Hashable, Sendable {
    /// A part of a file's content, at an offset.
    case data(entry: UInt32, offset: UInt64, ByteBuffer)
    /// The whole file was sent. Its content has this size and SHA-256.
    case end(entry: UInt32, size: UInt64, Digest256)
    /// The sender cannot send this entry: its file has changed, or cannot be read.
    case abandoned(entry: UInt32)
    /// All entries were sent.
    case complete

    /// The bytes of content in it.
    package var dataBytes: Int { if case .data(_, _, let data) = self { data.readableBytes } else { 0 } }

    fileprivate enum Kind: UInt8 {
        case data = 1
        case end = 2
        case abandoned = 3
        case complete = 4
    }

    /// Writes the header of a data frame, whose data is to follow.
    package static func writeHeader(entry: UInt32, offset: UInt64, dataBytes: Int, to buffer: inout ByteBuffer) {
        write(.data, entry, offset, UInt32(clamping: dataBytes), to: &buffer)
    }

    package func write(to buffer: inout ByteBuffer) {
        switch self {
        case .data(let entry, let offset, let data):
            Self.writeHeader(entry: entry, offset: offset, dataBytes: data.readableBytes, to: &buffer)
            buffer.writeImmutableBuffer(data)
        case .end(let entry, let size, let digest):
            Self.write(.end, entry, size, UInt32(digest.bytes.count), to: &buffer)
            buffer.writeBytes(digest.bytes)
        case .abandoned(let entry): Self.write(.abandoned, entry, 0, 0, to: &buffer)
        case .complete: Self.write(.complete, 0, 0, 0, to: &buffer)
        }
    }

    private static func write(_ kind: Kind, _ entry: UInt32, _ offset: UInt64, _ length: UInt32, to buffer: inout ByteBuffer) {
        buffer.writeInteger(kind.rawValue)
        buffer.writeInteger(entry)
        buffer.writeInteger(offset)
        buffer.writeInteger(length)
    }
}

/// What a peer has sent is no bulk stream, or not what was to come.
package enum BulkError: Error, Hashable, Sendable {
    case unknownKind
    case lengthInvalid
    /// Bytes follow the end of the stream.
    case afterEnd
    /// A part of a content does not follow the one before it, or exceeds the size.
    case misplaced
}

/// Decodes frames from a byte stream that arrives in arbitrary pieces. The data of a frame is passed on as it arrives, in several frames with
/// growing offsets, so that nothing but a header or a digest is ever kept.
package struct BulkFrameDecoder: Sendable {
    private enum State {
        case header
        case data(entry: UInt32, offset: UInt64, left: Int)
        case digest(entry: UInt32, size: UInt64)
        case ended
        case failed(BulkError)
    }

    private var state = State.header
    private var bytes = ByteBuffer()

    package init() {}

    /// Adds received bytes. Call `next` until it returns `nil` before the next call.
    package mutating func append(_ more: ByteBuffer) {
        if bytes.readableBytes == 0 { bytes = more } else { bytes.writeImmutableBuffer(more) }
    }

    /// Whether the stream has ended, by its own word.
    package var hasEnded: Bool { if case .ended = state { true } else { false } }

    /// The next frame; `nil` until more bytes arrive. After an error, every call throws that error.
    package mutating func next() throws(BulkError) -> BulkFrame? {
        do throws(BulkError) {
            return try decode()
        } catch {
            state = .failed(error)
            bytes.clear()
            throw error
        }
    }

    private mutating func decode() throws(BulkError) -> BulkFrame? {
        while true {
            switch state {
            case .failed(let error): throw error
            case .ended:
                guard bytes.readableBytes == 0 else { throw .afterEnd }
                return nil
            case .header:
                guard let (kind, entry, offset, length) = bytes.readMultipleIntegers(as: (UInt8, UInt32, UInt64, UInt32).self) else {
                    return nil
                }
                if let frame = try begin(kind, entry, offset, length) { return frame }
            case .data(let entry, let offset, let left):
                guard let data = bytes.readSlice(length: min(left, bytes.readableBytes)), data.readableBytes > 0 else { return nil }
                let rest = left - data.readableBytes
                state = rest == 0 ? .header : .data(entry: entry, offset: offset + UInt64(data.readableBytes), left: rest)
                return .data(entry: entry, offset: offset, data)
            case .digest(let entry, let size):
                guard let digest = bytes.readBytes(length: Digest256.byteCount).flatMap({ Digest256(bytes: $0) }) else { return nil }
                state = .header
                return .end(entry: entry, size: size, digest)
            }
        }
    }

    /// Begins a frame. A frame that is only a header is returned.
    private mutating func begin(_ kind: UInt8, _ entry: UInt32, _ offset: UInt64, _ length: UInt32) throws(BulkError) -> BulkFrame? {
        switch BulkFrame.Kind(rawValue: kind) {
        case .data:
            // The offset of the frame's last byte is a number, too.
            guard (1...BulkWire.maximumDataBytes).contains(Int(length)), !offset.addingReportingOverflow(UInt64(length)).overflow else {
                throw .lengthInvalid
            }
            state = .data(entry: entry, offset: offset, left: Int(length))
            return nil
        case .end:
            guard length == Digest256.byteCount else { throw .lengthInvalid }
            state = .digest(entry: entry, size: offset)
            return nil
        case .abandoned:
            guard length == 0 else { throw .lengthInvalid }
            return .abandoned(entry: entry)
        case .complete:
            guard length == 0 else { throw .lengthInvalid }
            state = .ended
            return .complete
        case nil: throw .unknownKind
        }
    }
}

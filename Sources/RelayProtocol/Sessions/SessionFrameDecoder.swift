// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

/// Decodes frames from a byte stream that arrives in arbitrary pieces.
///
/// A frame within one received buffer shares that buffer's memory; a frame across buffers is collected in its own buffer.
/// Between two calls the decoder holds less than one frame. A message that is much smaller than its buffer is copied, so
/// that it does not keep the whole buffer alive.
package struct SessionFrameDecoder: Sendable {
    /// The part that is read next.
    private enum State {
        case header
        case body(Header)
        case skipping(Int)
        case failed(SessionError)
    }

    struct Header {
        let type: SessionFrameType
        let flags: SessionFrameFlags
        let connection: SessionConnectionID
        let number: UInt32
        let length: Int
    }

    private var state = State.header
    /// Received bytes that are not read yet. They are never modified: a write would copy the buffer once a slice shares it.
    private var received = ByteBuffer()
    private var receivedNext: [ByteBuffer] = []
    /// The first part of a header or body whose rest has not arrived.
    private var partialHeader = ByteBuffer()
    private var partialBody = ByteBuffer()

    package init() {}

    /// Adds received bytes.
    package mutating func append(_ bytes: ByteBuffer) {
        if received.readableBytes == 0 {
            received = bytes
        } else {
            receivedNext.append(bytes)
        }
    }

    /// The number of buffered bytes.
    package var heldBytes: Int {
        received.readableBytes + receivedNext.reduce(0) { $0 + $1.readableBytes } + partialHeader.readableBytes
            + partialBody.readableBytes
    }

    /// The next complete frame; `nil` until more bytes arrive. After an error, every call throws that error.
    package mutating func next() throws(SessionError) -> SessionFrame? {
        do throws(SessionError) {
            while true {
                switch state {
                case .header:
                    guard let header = readHeader() else { return nil }
                    state = try Self.state(after: header)
                case .body(let header):
                    guard let body = readBody(header.length) else { return nil }
                    state = .header
                    return try SessionFrame(header, header.type == .data ? body : Self.compact(body))
                case .skipping(let count):
                    guard let rest = skip(count) else {
                        state = .header
                        continue
                    }
                    state = .skipping(rest)
                    return nil
                case .failed(let error):
                    throw error
                }
            }
        } catch {
            self = SessionFrameDecoder()
            state = .failed(error)
            throw error
        }
    }

    private typealias RawHeader = (length: UInt32, type: UInt8, flags: UInt8, connection: UInt32, number: UInt32)

    private mutating func readHeader() -> RawHeader? {
        if partialHeader.readableBytes == 0, let header = Self.header(in: &received) { return header }
        while partialHeader.readableBytes < SessionWire.headerBytes {
            guard advanceReceived() else { return nil }
            let count = min(SessionWire.headerBytes - partialHeader.readableBytes, received.readableBytes)
            guard var piece = received.readSlice(length: count) else { return nil }
            partialHeader.writeBuffer(&piece)
        }
        defer { partialHeader.clear() }
        return Self.header(in: &partialHeader)
    }

    private static func header(in buffer: inout ByteBuffer) -> RawHeader? {
        buffer.readMultipleIntegers(as: (UInt32, UInt8, UInt8, UInt32, UInt32).self)
    }

    /// Validates a header before the body is read.
    private static func state(after raw: RawHeader) throws(SessionError) -> State {
        guard let type = SessionFrameType(rawValue: raw.type) else {
            guard raw.type >= SessionFrameType.firstSkipped else { throw .unknownFrameType }
            guard raw.length <= SessionWire.skippedBytes else { throw .frameTooLarge }
            return .skipping(Int(raw.length))
        }
        let lengths = type.bodyLengths
        guard raw.length <= lengths.upperBound else { throw .frameTooLarge }
        let (hasConnection, hasNumber) = (raw.connection != 0, raw.number != 0)
        let subject = type.subject
        guard raw.length >= lengths.lowerBound, type.flags.isSuperset(of: SessionFrameFlags(rawValue: raw.flags)),
            hasConnection == (subject != .session), hasNumber == (subject == .request)
        else { throw .invalidFrame }
        return .body(
            Header(
                type: type,
                flags: SessionFrameFlags(rawValue: raw.flags),
                connection: SessionConnectionID(raw.connection),
                number: raw.number,
                length: Int(raw.length)
            )
        )
    }

    /// Copies a small message out of a large buffer, because the message may wait for the app. `data` frames do not wait and
    /// need no copy.
    private static func compact(_ body: ByteBuffer) -> ByteBuffer {
        guard body.readableBytes < body.storageCapacity / 2 else { return body }
        return ByteBuffer(buffer: body)
    }

    private mutating func readBody(_ length: Int) -> ByteBuffer? {
        if partialBody.readableBytes == 0 {
            if let body = received.readSlice(length: length) { return body }
        }
        while partialBody.readableBytes < length {
            guard advanceReceived() else { return nil }
            let count = min(length - partialBody.readableBytes, received.readableBytes)
            if partialBody.capacity == 0 {
                if count == length { return received.readSlice(length: length) }
                partialBody = ByteBufferAllocator().buffer(capacity: length)
            }
            guard var piece = received.readSlice(length: count) else { return nil }
            partialBody.writeBuffer(&piece)
        }
        // The returned buffer must not be modified later.
        defer { partialBody = ByteBuffer() }
        return partialBody
    }

    /// The number of bytes that remain to be skipped; `nil` if none.
    private mutating func skip(_ count: Int) -> Int? {
        var rest = count
        while rest > 0 {
            guard advanceReceived() else { return rest }
            let step = min(rest, received.readableBytes)
            received.moveReaderIndex(forwardBy: step)
            rest -= step
        }
        return nil
    }

    /// Moves to the next buffer with unread bytes and releases buffers that are read completely.
    /// - Returns: Whether there are bytes to read.
    private mutating func advanceReceived() -> Bool {
        while received.readableBytes == 0 {
            received = ByteBuffer()
            guard !receivedNext.isEmpty else { return false }
            received = receivedNext.removeFirst()
        }
        return true
    }
}

extension SessionFrame {
    /// Decodes a body whose header is valid.
    fileprivate init(_ header: SessionFrameDecoder.Header, _ body: ByteBuffer) throws(SessionError) {
        self.init(
            try Payload(header, body),
            connection: header.connection,
            number: header.number,
            size: SessionWire.headerBytes + header.length
        )
    }
}

extension SessionFrame.Payload {
    fileprivate init(_ header: SessionFrameDecoder.Header, _ body: ByteBuffer) throws(SessionError) {
        var body = body
        let kind: SessionFrame.MessageKind = header.flags.contains(.response) ? .response : .request
        switch header.type {
        case .request:
            let (message, timeLeft) = try Self.message(body)
            self = .request(message, timeLeft: timeLeft)
        case .response:
            self = .response(try Self.message(body).0)
        case .data:
            self = .data(body, of: kind, isLast: header.flags.contains(.end))
        case .window:
            let credit: UInt32 = try Self.integer(&body)
            guard credit > 0 else { throw .invalidFrame }
            self = .window(credit)
        case .grant: self = .grant(kind)
        case .cancel: self = .cancel
        case .error: self = .error(try Self.reason(&body))
        case .settings: self = .settings(try SessionSettings(try Self.map(body)))
        case .open:
            let metadata = try Self.metadata(&body)
            guard let metadata, body.readableBytes == 0 else { throw .invalidMetadata }
            self = .open(try SessionOpening(try Self.map(metadata)))
        case .opened: self = .opened
        case .refused: self = .refused(try Self.reason(&body))
        case .ping: self = .ping(try Self.integer(&body))
        case .pong: self = .pong(try Self.integer(&body))
        case .ack: self = .ack(try Self.integer(&body))
        case .moved: self = .moved(try Self.integer(&body))
        case .close: self = .close(try Self.reason(&body))
        case .goaway:
            let last: UInt32 = try Self.integer(&body)
            let code: UInt16 = try Self.integer(&body)
            self = .goaway(
                SessionGoAway(lastConnection: SessionConnectionID(last), code: code, message: try Self.text(body))
            )
        }
    }

    private static func message(_ body: ByteBuffer) throws(SessionError) -> (SessionFrame.Message, Duration?) {
        var body = body
        var timeLeft: Duration?
        let metadata = try metadata(&body)
        if let milliseconds = metadata.flatMap(SessionMessageMetadata.init(deadlineAlone:))?.milliseconds {
            timeLeft = .milliseconds(milliseconds)
        } else if let metadata {
            let map = try map(metadata)
            timeLeft = try SessionDeadline.timeLeft(map["deadline"])
            if let value = map["length"] {
                // A message that fits into the frame must be inline, so that every message has one encoding.
                guard let length = value.int, length > SessionWire.inlineBytes, body.readableBytes == 0 else { throw .invalidMetadata }
                return (.announced(length), timeLeft)
            }
        }
        guard body.readableBytes <= SessionWire.inlineBytes else { throw .frameTooLarge }
        return (.inline(body), timeLeft)
    }

    private static func metadata(_ body: inout ByteBuffer) throws(SessionError) -> ByteBuffer? {
        let length: UInt16 = try integer(&body)
        guard length > 0 else { return nil }
        guard length <= SessionWire.metadataBytes else { throw .frameTooLarge }
        guard let metadata = body.readSlice(length: Int(length)) else { throw .invalidFrame }
        return metadata
    }

    private static func map(_ bytes: ByteBuffer) throws(SessionError) -> ValueSet {
        do { return try ValueSet(decoding: bytes) } catch { throw .invalidMetadata }
    }

    private static func integer<Integer: FixedWidthInteger>(_ body: inout ByteBuffer) throws(SessionError) -> Integer {
        guard let integer = body.readInteger(as: Integer.self) else { throw .invalidFrame }
        return integer
    }

    private static func text(_ body: ByteBuffer) throws(SessionError) -> String {
        guard let text = String(validating: body.readableBytesView, as: UTF8.self) else { throw .invalidFrame }
        return text
    }

    private static func reason<Code>(_ body: inout ByteBuffer) throws(SessionError) -> SessionReason<Code> {
        guard let code = Code(rawValue: try integer(&body)) else { throw .invalidFrame }
        return SessionReason(code, try text(body))
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// A message of the control channel: one JSON object, whose `type` says which.
package protocol ControlMessage: Codable, Hashable, Sendable {
    static var type: String { get }
}

/// A request, or its answer: both bear the request's `ref`.
package protocol NumberedControlMessage: ControlMessage {
    var ref: RequestRef { get }
}

/// Why a frame ends the channel.
package enum ControlFrameError: Error, Hashable, Sendable, CustomStringConvertible {
    /// It is larger than it may be.
    case tooLarge(LimitExceeded)
    /// It is not a message. The text names fields and their types, never a value.
    case malformed(String)

    /// The WebSocket close code (RFC 6455 §7.4.1).
    package var closeCode: UInt16 {
        switch self {
        case .tooLarge: 1009
        case .malformed: 1007
        }
    }

    /// At most 123 bytes, which is what a close frame holds.
    package var description: String {
        switch self {
        case .tooLarge(let exceeded): exceeded.description
        case .malformed(let reason): reason
        }
    }
}

/// How messages become frames and frames messages.
enum ControlFrame {
    static func decode<Message: Decodable>(_ type: Message.Type, from index: JSONIndex, limits: Limits) throws(ControlFrameError) -> Message
    {
        do {
            var decoder = ControlFrameDecoder()
            if let key = CodingUserInfoKey.limits { decoder.userInfo[key] = limits }
            return try decoder.decode(type, from: index)
        } catch {
            throw ControlFrameError(error)
        }
    }

    /// What is in a frame, once it is JSON and not too large.
    static func index(of frame: ByteBuffer, limits: Limits, isWelcome: Bool) throws(ControlFrameError) -> JSONIndex {
        do {
            try limits.check(isWelcome ? .controlFrameBytes : .controlFrameBytesBeforeWelcome, frame.readableBytes)
            let bytes = Array(frame.readableBytesView)
            guard bytes.first(where: { !isJSONSpace($0) }) == UInt8(ascii: "{") else {
                throw ControlFrameError.malformed("not a JSON object")
            }
            // All of it, also in strings that nobody reads: so two readers of a frame are of one mind.
            guard bytes.withUnsafeBytes(\.isASCII) || String(validating: bytes, as: UTF8.self) != nil else {
                throw ControlFrameError.malformed("not valid UTF-8")
            }
            do throws(JSONIndex.Malformed) {
                return try JSONIndex(bytes)
            } catch {
                throw ControlFrameError.malformed(ControlFrameError.notJSON)
            }
        } catch {
            throw ControlFrameError(error)
        }
    }

    /// A frame of what is JSON already.
    static func frame(_ json: [UInt8], limits: Limits) throws(ControlFrameError) -> ByteBuffer {
        try limits.check(.controlFrameBytes, json.count, as: ControlFrameError.tooLarge)
        return ByteBuffer(bytes: json)
    }

    static func encode(_ message: some Encodable, limits: Limits) throws(ControlFrameError) -> ByteBuffer {
        do {
            let frame = try ControlFrameEncoder.encode(message)
            try limits.check(.controlFrameBytes, frame.readableBytes)
            return frame
        } catch {
            throw ControlFrameError(error)
        }
    }

    private static func isJSONSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D
    }
}

/// The two fields that are read before it is known which message it is.
enum ControlFrameKey: String, CodingKey {
    case type, ref
}

extension ControlMessage {
    /// The message with its `type`.
    func encodeFrame(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: ControlFrameKey.self)
        try container.encode(Self.type, forKey: .type)
        try encode(to: encoder)
    }
}

extension CodingUserInfoKey {
    fileprivate static let limits = CodingUserInfoKey(rawValue: "limits")
}

extension Decoder {
    /// What a message's fields are measured by.
    var limits: Limits {
        guard let key = CodingUserInfoKey.limits, let limits = userInfo[key] as? Limits else { return Limits() }
        return limits
    }
}

extension ControlFrameError {
    init(_ error: any Error) {
        switch error {
        case let error as ControlFrameError: self = error
        case let error as LimitExceeded: self = .tooLarge(error)
        case let error as DecodingError: self = .malformed(Self.reason(error))
        default: self = .malformed("cannot be read")
        }
    }

    static let notJSON = "not JSON, nested too deep, or of too many values"

    /// Only our own field names: a text of Foundation's may quote the frame.
    private static func reason(_ error: DecodingError) -> String {
        switch error {
        case .keyNotFound(let key, let context): "\(path(context.codingPath + [key])) is missing"
        case .valueNotFound(_, let context): "\(path(context.codingPath)) is null"
        case .typeMismatch(_, let context): "\(path(context.codingPath)) has the wrong type"
        case .dataCorrupted(let context) where !context.codingPath.isEmpty: "\(path(context.codingPath)) has no valid value"
        default: notJSON
        }
    }

    private static func path(_ keys: [any CodingKey]) -> String {
        let names = keys.suffix(4).map { key in
            key.stringValue.utf8.count <= 24 && key.stringValue.utf8.allSatisfy(isASCIIAlphanumeric) ? key.stringValue : "…"
        }
        return names.isEmpty ? "the message" : names.joined(separator: ".")
    }
}

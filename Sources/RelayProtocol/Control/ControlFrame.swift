// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// A message of the control channel: one JSON object whose `type` names the message type.
///
/// A new message is a type that defines `type` and its members, and a case of `EndpointMessage` or `RelayMessage`.
package protocol ControlMessage: JSONObjectCodable, Hashable, Sendable {
    static var type: String { get }
}

/// A request, or its answer. Both contain the request's `ref`.
package protocol NumberedControlMessage: ControlMessage {
    var ref: RequestRef { get }
}

/// Why a frame ends the channel.
package enum ControlFrameError: Error, Hashable, Sendable, CustomStringConvertible {
    /// It is larger than allowed.
    case tooLarge(LimitExceeded)
    /// It is not a valid message. The text names fields and their types, never a value.
    case malformed(String)

    init(_ error: JSONError) {
        switch error {
        case .malformed(let reason): self = .malformed(reason)
        case .tooLarge(let exceeded): self = .tooLarge(exceeded)
        }
    }

    /// The WebSocket close code (RFC 6455 §7.4.1).
    package var closeCode: UInt16 {
        switch self {
        case .tooLarge: 1009
        case .malformed: 1007
        }
    }

    /// At most 123 bytes, the maximum in a close frame.
    package var description: String {
        switch self {
        case .tooLarge(let exceeded): exceeded.description
        case .malformed(let reason): reason
        }
    }
}

/// Conversion between messages and frames.
enum ControlFrame {
    /// Parses a frame after a check of its size and encoding.
    static func json(of frame: ByteBuffer, limits: Limits, isWelcome: Bool) throws(ControlFrameError) -> JSONValue {
        let limit: Limit = isWelcome ? .controlFrameBytes : .controlFrameBytesBeforeWelcome
        try limits.check(limit, frame.readableBytes, as: ControlFrameError.tooLarge)
        let bytes = Array(frame.readableBytesView)
        guard bytes.first(where: { !isJSONSpace($0) }) == UInt8(ascii: "{") else { throw .malformed("not a JSON object") }
        // The whole frame is checked, also ignored strings, so that two decoders always agree.
        guard bytes.withUnsafeBytes(\.isASCII) || String(validating: bytes, as: UTF8.self) != nil else {
            throw .malformed("not valid UTF-8")
        }
        do throws(JSONSyntaxError) {
            return JSONValue(try JSONIndex(bytes), limits: limits)
        } catch {
            throw .malformed(JSONError.notJSON)
        }
    }

    private static func isJSONSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D
    }
}

extension ControlMessage {
    /// The message as a frame: its `type`, then its members.
    func frame(limits: Limits) throws(ControlFrameError) -> ByteBuffer {
        var json = JSONWriter(capacity: 1_024)
        json.object { json in
            json.member("type", Self.type)
            writeMembers(to: &json)
        }
        try limits.check(.controlFrameBytes, json.bytes.count, as: ControlFrameError.tooLarge)
        return ByteBuffer(bytes: json.bytes)
    }
}

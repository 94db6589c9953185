// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

/// The content of `open`.
package struct SessionOpening: Hashable, Sendable {
    /// The app service's name.
    package var serviceName: String
    /// The app that offers the service. An empty id matches no app.
    package var appID: String
    /// The app id of the caller by its own account; may be empty.
    package var callerAppID: String
    /// How long the caller waits.
    package var timeLeft: Duration?
    /// The span of the caller, if it traces the connection.
    package var trace: TraceContext?

    package init(
        serviceName: String,
        appID: String = "",
        callerAppID: String = "",
        timeLeft: Duration? = nil,
        trace: TraceContext? = nil
    ) {
        self.serviceName = serviceName
        self.appID = appID
        self.callerAppID = callerAppID
        self.timeLeft = timeLeft
        self.trace = trace
    }

    init(_ map: ValueSet) throws(SessionError) {
        guard let serviceName = map["service"]?.string else { throw .invalidMetadata }
        let trace = map["trace"]?.string.flatMap { TraceContext(rawValue: $0) }
        guard map["trace"] == nil || trace != nil else { throw .invalidMetadata }
        self.init(
            serviceName: serviceName,
            appID: try Self.text(map["package"]),
            callerAppID: try Self.text(map["caller"]),
            timeLeft: try SessionDeadline.timeLeft(map["deadline"]),
            trace: trace
        )
    }

    private static func text(_ value: ValueSet.Value?) throws(SessionError) -> String {
        guard let value else { return "" }
        guard let text = value.string else { throw .invalidMetadata }
        return text
    }

    var map: ValueSet {
        var map: ValueSet = ["service": .string(serviceName)]
        if !appID.isEmpty { map["package"] = .string(appID) }
        if !callerAppID.isEmpty { map["caller"] = .string(callerAppID) }
        if let timeLeft { map["deadline"] = .int(Int64(SessionDeadline.milliseconds(timeLeft))) }
        if let trace { map["trace"] = .string(trace.rawValue) }
        return map
    }
}

/// A time limit is sent as the remaining milliseconds, because the clocks of two devices differ.
enum SessionDeadline {
    static func milliseconds(_ timeLeft: Duration) -> UInt32 {
        let (seconds, attoseconds) = timeLeft.components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        guard seconds < Int64(UInt32.max) / 1_000 else { return UInt32.max }
        return UInt32(seconds * 1_000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }

    static func timeLeft(_ value: ValueSet.Value?) throws(SessionError) -> Duration? {
        guard let value else { return nil }
        guard let milliseconds = value.int.flatMap(UInt32.init(exactly:)) else { throw .invalidMetadata }
        return .milliseconds(milliseconds)
    }
}

/// The metadata of `request` and `response`. It is encoded without a `ValueSet`, because it is on the path of every call
/// and usually empty.
struct SessionMessageMetadata {
    var length: UInt64?
    var milliseconds: UInt64?

    init(_ message: SessionFrame.Message, timeLeft: Duration?) {
        if case .announced(let length) = message { self.length = UInt64(clamping: length) }
        if let timeLeft { self.milliseconds = UInt64(SessionDeadline.milliseconds(timeLeft)) }
    }

    /// Decodes the most frequent form, a map with only a deadline. `nil` for any other form, which may be valid too.
    init?(deadlineAlone bytes: ByteBuffer) {
        let milliseconds: UInt64? = bytes.withUnsafeReadableBytes { bytes in
            let keyLength = Self.deadlineKey.utf8CodeUnitCount
            guard bytes.count > 2 + keyLength, bytes[0] == CBOR.Major.map.rawValue << 5 | 1,
                bytes[1] == CBOR.Major.text.rawValue << 5 | UInt8(keyLength),
                bytes[2..<2 + keyLength].elementsEqual(UnsafeRawBufferPointer(start: Self.deadlineKey.utf8Start, count: keyLength))
            else { return nil }
            var argument = bytes[(2 + keyLength)...]
            let head = argument.removeFirst()
            let width: Int
            switch head {
            case 0..<24: return argument.isEmpty ? UInt64(head) : nil
            case 24: width = 1
            case 25: width = 2
            case 26: width = 4
            default: return nil
            }
            guard argument.count == width else { return nil }
            let value = argument.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            return CBOR.headSize(value) == 1 + width ? value : nil
        }
        guard let milliseconds else { return nil }
        self.milliseconds = milliseconds
    }

    private static let lengthKey: StaticString = "length"
    private static let deadlineKey: StaticString = "deadline"

    var encodedSize: Int {
        guard length != nil || milliseconds != nil else { return 0 }
        var size = 1
        if let length { size += 1 + Self.lengthKey.utf8CodeUnitCount + CBOR.headSize(length) }
        if let milliseconds { size += 1 + Self.deadlineKey.utf8CodeUnitCount + CBOR.headSize(milliseconds) }
        return size
    }

    /// Encodes the map; an empty map is omitted.
    func write(with writer: inout CBORWriter) {
        guard length != nil || milliseconds != nil else { return }
        writer.head(.map, length != nil && milliseconds != nil ? 2 : 1)
        // Deterministic order: the shorter key first.
        if let length {
            writer.text(Self.lengthKey)
            writer.head(.unsigned, length)
        }
        if let milliseconds {
            writer.text(Self.deadlineKey)
            writer.head(.unsigned, milliseconds)
        }
    }
}

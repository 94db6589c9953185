// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Foundation

/// The id of a command: a UUID of version 7 (RFC 9562 §5.7). Ids sort by creation time.
public struct CommandID: TextIdentifier {
    /// The UUID.
    public let uuid: UUID

    /// The id in a UUID; `nil` if the UUID is not of version 7.
    public init?(uuid: UUID) {
        guard uuid.uuid.6 >> 4 == 7, uuid.uuid.8 >> 6 == 0b10 else { return nil }
        self.uuid = uuid
    }

    /// Reads the text form of RFC 9562, in either case; `nil` for any other text, and for other versions.
    public init?(_ description: String) {
        // Foundation's parser takes several times as long, and every frame about a command contains an id.
        var text = description
        guard let words = text.withUTF8(Self.words) else { return nil }
        self.init(uuid: withUnsafeBytes(of: (words.0.bigEndian, words.1.bigEndian)) { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) })
    }

    /// The number of bytes in each group of the text form.
    private static let groups = [4, 2, 2, 2, 6]

    /// The two halves of the UUID, the most significant byte first.
    private static func words(of text: UnsafeBufferPointer<UInt8>) -> (UInt64, UInt64)? {
        guard text.count == 36 else { return nil }
        var words: (UInt64, UInt64) = (0, 0)
        for place in text.indices {
            switch place {
            case 8, 13, 18, 23:
                guard text[place] == UInt8(ascii: "-") else { return nil }
            default:
                guard let digit = Hexadecimal.value(ofDigit: text[place]) else { return nil }
                words = (words.0 << 4 | words.1 >> 60, words.1 << 4 | UInt64(digit))
            }
        }
        return words
    }

    /// When the command was created, by the clock that its sender used.
    public var time: Date {
        let bytes = uuid.uuid
        let milliseconds = [bytes.0, bytes.1, bytes.2, bytes.3, bytes.4, bytes.5].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return Date(timeIntervalSince1970: Double(milliseconds) / 1_000)
    }

    /// The text form of RFC 9562, in lower case.
    public var description: String {
        withUnsafeBytes(of: uuid.uuid) { bytes in
            String(unsafeUninitializedCapacity: 36) { text in
                var (index, place) = (0, 0)
                for group in Self.groups {
                    if place > 0 {
                        text[place] = UInt8(ascii: "-")
                        place += 1
                    }
                    for byte in bytes[index..<index + group] {
                        text[place] = Hexadecimal.digit(byte >> 4)
                        text[place + 1] = Hexadecimal.digit(byte & 0xF)
                        place += 2
                    }
                    index += group
                }
                return place
            }
        }
    }

    /// Compares the bytes: earlier ids come first.
    public static func < (left: Self, right: Self) -> Bool {
        withUnsafeBytes(of: left.uuid.uuid) { left in
            withUnsafeBytes(of: right.uuid.uuid) { right in left.lexicographicallyPrecedes(right) }
        }
    }
}

/// Makes command ids that grow strictly, also within a millisecond and when the clock goes back (RFC 9562 §6.2, method 2: the random part
/// serves as a counter).
package struct CommandIDGenerator: Sendable {
    private var milliseconds: UInt64 = 0
    /// The 74 bits after the time: 12 in `high` and 62 in `low`.
    private var high: UInt16 = 0
    private var low: UInt64 = 0

    package init() {}

    /// The next id.
    /// - Parameter now: milliseconds since 1970; 48 bits of it are used.
    package mutating func next(now: UInt64, using random: inout some RandomNumberGenerator) -> CommandID {
        let now = now & 0xFFFF_FFFF_FFFF
        if now > milliseconds || (milliseconds == 0 && high == 0 && low == 0) {
            milliseconds = now
            // The top bit stays 0, so that a burst does not overflow the counter.
            high = random.next() & 0x7FF
            low = random.next() & Self.lowMask
        } else {
            // The step is random, so that the next id cannot be guessed.
            low += UInt64.random(in: 1...(1 << 32), using: &random)
            if low > Self.lowMask {
                low &= Self.lowMask
                high += 1
            }
            if high > 0xFFF {
                high = 0
                milliseconds = (milliseconds + 1) & 0xFFFF_FFFF_FFFF
            }
        }
        func byte(_ value: UInt64, _ shift: UInt64) -> UInt8 { UInt8(truncatingIfNeeded: value >> shift) }
        let uuid = UUID(
            uuid: (
                byte(milliseconds, 40), byte(milliseconds, 32), byte(milliseconds, 24), byte(milliseconds, 16), byte(milliseconds, 8),
                byte(milliseconds, 0), 0x70 | UInt8(truncatingIfNeeded: high >> 8), UInt8(truncatingIfNeeded: high),
                0x80 | byte(low, 56), byte(low, 48), byte(low, 40), byte(low, 32), byte(low, 24), byte(low, 16), byte(low, 8), byte(low, 0)
            )
        )
        return CommandID(unchecked: uuid)
    }

    private static let lowMask: UInt64 = 1 << 62 - 1
}

extension CommandID {
    fileprivate init(unchecked uuid: UUID) { self.uuid = uuid }
}

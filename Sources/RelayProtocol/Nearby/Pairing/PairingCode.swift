// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The eight digits by which two devices pair: one shows them, a person types them on the other one. It serves one attempt.
///
/// Only `text` contains the digits; descriptions and mirrors do not.
public struct PairingCode: Hashable, Sendable {
    static let digits = 8
    /// A pairing has so many rounds, one for each bit of a code: 2^27 is the first power of two above 10^8.
    package static let bits = 27
    private static let end = 100_000_000
    private static let maximumBytes = 64

    private let number: Secret<Int>

    /// - Parameter random: It must be cryptographic.
    package init(using random: inout some RandomNumberGenerator) {
        number = Secret(Int.random(in: 0..<Self.end, using: &random))
    }

    /// Reads what a person types: eight digits from 0 to 9, with spaces anywhere, and with a dash in the middle or none; `nil` for anything
    /// else.
    public init?(parsing text: String) {
        guard text.utf8.count <= Self.maximumBytes else { return nil }
        var (number, digits, hasDash) = (0, 0, false)
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: " "): continue
            case UInt8(ascii: "-"):
                guard digits == Self.digits / 2, !hasDash else { return nil }
                hasDash = true
            case UInt8(ascii: "0")...UInt8(ascii: "9"):
                guard digits < Self.digits else { return nil }
                number = number * 10 + Int(byte - UInt8(ascii: "0"))
                digits += 1
            default: return nil
            }
        }
        guard digits == Self.digits else { return nil }
        self.number = Secret(number)
    }

    /// The digits with a space in the middle, as in `1234 5678`. They are a secret of the two people or devices: show them only to the person
    /// who asked for them, and keep them out of logs.
    public var text: String {
        let digits = String(Self.end + number.exposed).dropFirst()
        return digits.prefix(Self.digits / 2) + " " + digits.suffix(Self.digits / 2)
    }

    /// One for each round, the most significant first.
    package var roundBits: [Bool] { (0..<Self.bits).reversed().map { number.exposed >> $0 & 1 == 1 } }
}

extension PairingCode: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// A text without the digits.
    public var description: String { "(pairing code)" }
    /// A text without the digits.
    public var debugDescription: String { description }
    /// A mirror without the digits.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The parts of CBOR that messages use.
enum CBOR {
    enum Major: UInt8 {
        case unsigned = 0
        case negative = 1
        case bytes = 2
        case text = 3
        case array = 4
        case map = 5
        case tag = 6
        case simple = 7
    }

    static let epochTag: UInt64 = 1
    static let uuidTag: UInt64 = 37
    static let falseByte: UInt8 = 0xF4
    static let trueByte: UInt8 = 0xF5
    static let halfByte: UInt8 = 0xF9
    static let floatByte: UInt8 = 0xFA
    static let doubleByte: UInt8 = 0xFB

    /// The bytes that a head with this argument takes.
    static func headSize(_ argument: UInt64) -> Int {
        switch argument {
        case 0..<24: 1
        case 24..<0x100: 2
        case 0x100..<0x1_0000: 3
        case 0x1_0000..<0x1_0000_0000: 5
        default: 9
        }
    }

    /// The argument of an integer's head.
    static func argument(of value: Int64) -> UInt64 { UInt64(bitPattern: value < 0 ? ~value : value) }

    /// A double in the shortest of the three widths that represents it exactly.
    enum ShortestFloat {
        case half(UInt16)
        case float(UInt32)
        case double(UInt64)

        init(_ value: Double) {
            if value.isNaN {
                self = .half(HalfPrecision.quietNaN)
                return
            }
            let narrow = Float(value)
            guard Double(narrow) == value else {
                self = .double(value.bitPattern)
                return
            }
            if let half = HalfPrecision.bits(exactly: narrow) {
                self = .half(half)
            } else {
                self = .float(narrow.bitPattern)
            }
        }

        var size: Int {
            switch self {
            case .half: 3
            case .float: 5
            case .double: 9
            }
        }
    }

    /// The content of tag 1: whole seconds as an integer, all other times as a float.
    enum Epoch {
        case seconds(Int64)
        case fraction(Double)

        init(_ seconds: Double) {
            // Beyond 2^53 every double is a whole number, and a float is never longer than the integer.
            if seconds.magnitude < 0x1p53, let whole = Int64(exactly: seconds) {
                self = .seconds(whole)
            } else {
                self = .fraction(seconds)
            }
        }
    }
}

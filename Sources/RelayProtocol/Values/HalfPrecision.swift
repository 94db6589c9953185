// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// 16-bit floats (IEEE 754 binary16) as CBOR uses them. `Float16` is not available on every supported platform.
enum HalfPrecision {
    static let quietNaN: UInt16 = 0x7E00

    /// The bits of a number; `nil` if a 16-bit float does not represent it exactly. NaN is not handled here.
    static func bits(exactly value: Float) -> UInt16? {
        let bits = value.bitPattern
        let sign = UInt16(truncatingIfNeeded: bits >> 16) & 0x8000
        let exponent = Int(bits >> 23 & 0xFF) - 127
        let mantissa = bits & 0x7F_FFFF
        switch exponent {
        case 128:  // infinity
            return mantissa == 0 ? sign | 0x7C00 : nil
        case -14...15:
            guard mantissa & 0x1FFF == 0 else { return nil }
            return sign | UInt16(truncatingIfNeeded: exponent + 15) << 10 | UInt16(truncatingIfNeeded: mantissa >> 13)
        case -24 ..< -14:  // subnormal: the leading one becomes explicit
            let significand = mantissa | 0x80_0000
            let shift = UInt32(truncatingIfNeeded: -exponent - 1)
            guard significand & (1 << shift - 1) == 0 else { return nil }
            return sign | UInt16(truncatingIfNeeded: significand >> shift)
        case -127:
            return mantissa == 0 ? sign : nil
        default:
            return nil
        }
    }

    /// The number with these 16 bits.
    static func value(_ bits: UInt16) -> Double {
        let exponent = Int(bits >> 10 & 0x1F)
        let mantissa = Double(bits & 0x3FF)
        let magnitude: Double
        switch exponent {
        case 0: magnitude = mantissa * 0x1p-24
        case 31: magnitude = mantissa == 0 ? .infinity : .nan
        default: magnitude = Double(sign: .plus, exponent: exponent - 15, significand: 1 + mantissa * 0x1p-10)
        }
        return bits & 0x8000 == 0 ? magnitude : -magnitude
    }
}

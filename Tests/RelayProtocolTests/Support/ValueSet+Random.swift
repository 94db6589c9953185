// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting

extension ValueSet {
    /// A random valid message: arrays of one type, finite dates, and a limited depth.
    static func random(depth: Int = 4, using random: inout SeededGenerator) -> ValueSet {
        ValueSet(
            (0..<Int.random(in: 0...6, using: &random)).map { _ in
                (key: .randomText(using: &random), value: .random(depth: depth, using: &random))
            }
        )
    }
}

extension ValueSet.Value {
    static func random(depth: Int, using random: inout SeededGenerator) -> ValueSet.Value {
        .random(kind: Int.random(in: 0..<(depth > 0 ? 9 : 7), using: &random), depth: depth, using: &random)
    }

    private static func random(kind: Int, depth: Int, using random: inout SeededGenerator) -> ValueSet.Value {
        switch kind {
        case 0: return .string(.randomText(using: &random))
        case 1: return .bool(.random(using: &random))
        case 2: return .randomInteger(using: &random)
        case 3: return .double(.randomNumber(using: &random))
        // Multiples of 1/64 s are exact both as a double and in whole microseconds, which other implementations use.
        case 4: return .date(Date(timeIntervalSince1970: (Double.random(in: -1e10...1e10, using: &random) * 64).rounded() / 64))
        case 5: return .uuid(UUID(uuid: random.bytes(16).withUnsafeBytes { $0.loadUnaligned(as: uuid_t.self) }))
        case 6: return .data(random.bytes(Int.random(in: 0...40, using: &random)))
        case 7:
            let kind = Int.random(in: 0..<9, using: &random)
            return .array(
                (0..<Int.random(in: 0...5, using: &random)).map { _ in
                    .random(kind: depth > 1 ? kind : kind % 7, depth: depth - 1, using: &random)
                }
            )
        default: return .valueSet(.random(depth: depth - 1, using: &random))
        }
    }

    /// Integers of all widths, with frequent edge cases.
    static func randomInteger(using random: inout SeededGenerator) -> ValueSet.Value {
        let edges: [ValueSet.Value] = [
            0, -1, 23, 24, -24, -25, 255, 256, 65_535, 65_536, 0xFFFF_FFFF, 0x1_0000_0000, .int(.max), .int(.min), .uint(1 << 63),
            .uint(.max),
            .int(1 << 53 - 1), .int(1 << 53), .int(-(1 << 53)),
        ]
        if random.oneIn(3) { return edges.randomElement(using: &random) ?? 0 }
        let bits = random.next() >> UInt64.random(in: 0..<64, using: &random)
        return random.oneIn(2) ? .int(Int64(bitPattern: bits)) : ValueSet.Value(exactly: bits) ?? 0
    }
}

extension Double {
    static func randomNumber(using random: inout SeededGenerator) -> Double {
        let edges: [Double] = [
            0, -0.0, 1, 1.5, 65_504, 65_505, 5.960464477539063e-8, 6.103515625e-5, 3.4028234663852886e38, 1e300, .leastNonzeroMagnitude,
            .infinity,
            -.infinity,
        ]
        switch Int.random(in: 0..<4, using: &random) {
        case 0: return edges.randomElement(using: &random) ?? 0
        case 1: return Double(Int.random(in: -5_000...5_000, using: &random)) / 8
        case 2: return Double(Float.random(in: -1e10...1e10, using: &random))
        default:
            let number = Double(bitPattern: random.next())
            return number.isNaN ? 0.1 : number
        }
    }
}

extension String {
    static func randomText(using random: inout SeededGenerator) -> String {
        let alphabet: [Unicode.Scalar] = [
            "a", "b", "Z", "0", "$", "\"", "\\", "/", "\n", "\u{1}", "é", "e", "\u{301}", "日", "😀", "\u{7F}", " ",
        ]
        var text = String.UnicodeScalarView()
        let count = random.oneIn(20) ? 300 : Int.random(in: 0...8, using: &random)
        for _ in 0..<count {
            text.append(alphabet.randomElement(using: &random) ?? "a")
        }
        return String(text)
    }
}

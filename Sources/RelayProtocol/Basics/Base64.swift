// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Base64 (RFC 4648). The decoder accepts exactly one text for each byte sequence: the padding must be correct, and unused bits must be
/// zero.
///
/// Foundation's implementation works on `Data`. It would copy the bytes several times for each frame about a command.
package struct Base64: Sendable {
    /// The standard alphabet, with padding (§4).
    package static let standard = Base64("+/", isPadded: true)
    /// The alphabet for URLs, without padding (§5, RFC 7515 §2).
    package static let url = Base64("-_", isPadded: false)

    private static let noValue: UInt8 = 0xFF
    private static let padding = UInt8(ascii: "=")

    private let characters: [UInt8]
    /// For each byte, its value as a character of the alphabet, or `noValue`.
    private let values: [UInt8]
    private let isPadded: Bool

    private init(_ last: String, isPadded: Bool) {
        characters = Array(("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" + last).utf8)
        var values = [UInt8](repeating: Self.noValue, count: 256)
        for (value, character) in characters.enumerated() { values[Int(character)] = UInt8(value) }
        self.values = values
        self.isPadded = isPadded
    }

    package func encode(_ bytes: some Sequence<UInt8>) -> String {
        let bytes = Array(bytes)
        return String(unsafeUninitializedCapacity: textCount(of: bytes.count)) { text in
            write(bytes, to: text)
            return text.count
        }
    }

    /// Appends the encoded bytes to `text`.
    func append(_ bytes: [UInt8], to text: inout [UInt8]) {
        let start = text.count
        text.append(contentsOf: repeatElement(Self.padding, count: textCount(of: bytes.count)))
        text.withUnsafeMutableBufferPointer { write(bytes, to: UnsafeMutableBufferPointer(rebasing: $0[start...])) }
    }

    private func textCount(of count: Int) -> Int { isPadded ? (count + 2) / 3 * 4 : (count * 4 + 2) / 3 }

    private func write(_ bytes: [UInt8], to text: UnsafeMutableBufferPointer<UInt8>) {
        bytes.withUnsafeBufferPointer { bytes in
            characters.withUnsafeBufferPointer { characters in
                func character(_ bits: UInt32) -> UInt8 { characters[Int(bits & 0x3F)] }
                var (place, end) = (0, 0)
                while place + 3 <= bytes.count {
                    let bits = UInt32(bytes[place]) << 16 | UInt32(bytes[place + 1]) << 8 | UInt32(bytes[place + 2])
                    text[end] = character(bits >> 18)
                    text[end + 1] = character(bits >> 12)
                    text[end + 2] = character(bits >> 6)
                    text[end + 3] = character(bits)
                    (place, end) = (place + 3, end + 4)
                }
                guard place < bytes.count else { return }
                let isOne = place + 1 == bytes.count
                let bits = UInt32(bytes[place]) << 16 | (isOne ? 0 : UInt32(bytes[place + 1]) << 8)
                text[end] = character(bits >> 18)
                text[end + 1] = character(bits >> 12)
                if !isOne { text[end + 2] = character(bits >> 6) }
                guard isPadded else { return }
                if isOne { text[end + 2] = Self.padding }
                text[end + 3] = Self.padding
            }
        }
    }

    /// `nil` for every text that `encode` does not produce.
    package func decode(_ text: some StringProtocol) -> [UInt8]? { decode(Array(text.utf8)[...]) }

    /// Decodes ASCII text.
    func decode(_ text: ArraySlice<UInt8>) -> [UInt8]? { text.withUnsafeBufferPointer { decode($0) } }

    func decode(_ text: UnsafeBufferPointer<UInt8>) -> [UInt8]? {
        if isPadded, text.count % 4 != 0 { return nil }
        let count = text.count - (isPadded ? text.suffix(2).count { $0 == Self.padding } : 0)
        // The characters after the last complete group of four: 0, 2 or 3.
        let rest = count % 4
        guard rest != 1 else { return nil }
        // All empty arrays share their storage: the initializer below writes to it, which a thread sanitizer reports.
        guard count > 0 else { return [] }
        var isText = true
        let bytes = [UInt8](unsafeUninitializedCapacity: count / 4 * 3 + max(0, rest - 1)) { bytes, initializedCount in
            isText = read(text, count, to: bytes)
            initializedCount = isText ? bytes.count : 0
        }
        return isText ? bytes : nil
    }

    private func read(_ text: UnsafeBufferPointer<UInt8>, _ count: Int, to bytes: UnsafeMutableBufferPointer<UInt8>) -> Bool {
        values.withUnsafeBufferPointer { values in
            // `noValue` has high bits that no valid value has, so one check after the loop finds all invalid characters.
            var all: UInt8 = 0
            func bits(_ place: Int) -> UInt32 {
                let value = values[Int(text[place])]
                all |= value
                return UInt32(value)
            }
            var (place, end) = (0, 0)
            while place + 4 <= count {
                let bits = bits(place) << 18 | bits(place + 1) << 12 | bits(place + 2) << 6 | bits(place + 3)
                bytes[end] = UInt8(truncatingIfNeeded: bits >> 16)
                bytes[end + 1] = UInt8(truncatingIfNeeded: bits >> 8)
                bytes[end + 2] = UInt8(truncatingIfNeeded: bits)
                (place, end) = (place + 4, end + 3)
            }
            var unused: UInt32 = 0
            if place < count {
                let isTwo = place + 2 == count
                let bits = bits(place) << 18 | bits(place + 1) << 12 | (isTwo ? 0 : bits(place + 2) << 6)
                bytes[end] = UInt8(truncatingIfNeeded: bits >> 16)
                if !isTwo { bytes[end + 1] = UInt8(truncatingIfNeeded: bits >> 8) }
                unused = isTwo ? bits & 0xFFFF : bits & 0xFF
            }
            return all < 64 && unused == 0
        }
    }
}

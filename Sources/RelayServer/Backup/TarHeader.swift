// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The header block of a file in a `tar` archive (POSIX.1-1988, "ustar"): a regular file with access for its owner only. A size of 8 GiB or
/// more uses GNU tar's base-256 form: the first bit is set, and 95 bits hold the number.
package struct TarHeader: Hashable {
    package static let blockBytes = 512
    /// The largest value of eleven octal digits.
    private static let largestOctal: Int64 = 1 << 33 - 1

    package let name: String
    package let size: Int64

    /// `nil` if the name does not fit, or the size is negative.
    init?(name: String, size: Int64) {
        guard (1..<100).contains(name.utf8.count), !name.utf8.contains(0), size >= 0 else { return nil }
        self.name = name
        self.size = size
    }

    /// The number of padding bytes after a file, up to the next block.
    package static func padding(of size: Int64) -> Int { Int((Int64(blockBytes) - size % Int64(blockBytes)) % Int64(blockBytes)) }

    // MARK: Encoding

    private static let (mode, sizeField, time, checksum, type, magic) = (100..<108, 124..<136, 136..<148, 148..<156, 156, 257..<265)
    private static let regularFile = UInt8(ascii: "0")
    private static let ustar = Array("ustar\u{0}00".utf8)

    /// - Parameter time: Seconds since 1970.
    package func encoded(time: Int64) -> [UInt8] {
        var block = [UInt8](repeating: 0, count: Self.blockBytes)
        block.replaceSubrange(0..<name.utf8.count, with: name.utf8)
        func set(_ field: Range<Int>, _ value: Int64) {
            let digits = Array(String(value, radix: 8).utf8)
            let width = field.count - 1
            block.replaceSubrange(
                field.dropLast(),
                with: [UInt8](repeating: UInt8(ascii: "0"), count: max(0, width - digits.count)) + digits
            )
        }
        set(Self.mode, 0o600)
        // Owner and group are 0: the user who unpacks the archive owns the files.
        set(108..<116, 0)
        set(116..<124, 0)
        if size <= Self.largestOctal {
            set(Self.sizeField, size)
        } else {
            block.replaceSubrange(Self.sizeField, with: [0x80, 0, 0, 0] + (0..<8).map { UInt8(truncatingIfNeeded: size >> (56 - 8 * $0)) })
        }
        set(Self.time, min(max(time, 0), Self.largestOctal))
        block[Self.type] = Self.regularFile
        block.replaceSubrange(Self.magic, with: Self.ustar)
        let sum = Self.sum(block)
        block.replaceSubrange(Self.checksum, with: Array(String(sum + 0o1_000_000, radix: 8).utf8.suffix(6)) + [0, UInt8(ascii: " ")])
        return block
    }

    /// Decodes a header as `encoded` and `tar` write it; `nil` if the block is not the header of a regular file.
    package init?(decoding block: [UInt8]) {
        guard block.count == Self.blockBytes, block[Self.magic] == Self.ustar[...], block[Self.type] == Self.regularFile,
            Self.number(block[Self.checksum]) == Int64(Self.sum(block)), let size = Self.size(block[Self.sizeField])
        else { return nil }
        // The last field is a name prefix, which is not supported.
        guard block[345] == 0, let end = block.firstIndex(of: 0), let name = String(validating: block[..<end], as: UTF8.self) else {
            return nil
        }
        self.init(name: name, size: size)
    }

    /// The sum of all bytes, with the checksum field counted as spaces.
    private static func sum(_ block: [UInt8]) -> Int {
        block.reduce(0) { $0 + Int($1) } - block[checksum].reduce(0) { $0 + Int($1) } + checksum.count * 0x20
    }

    private static func size(_ field: ArraySlice<UInt8>) -> Int64? {
        guard field.first == 0x80 else { return number(field) }
        guard field.dropFirst().prefix(3).allSatisfy({ $0 == 0 }) else { return nil }
        return Int64(exactly: field.suffix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
    }

    private static func number(_ field: ArraySlice<UInt8>) -> Int64? {
        let digits = field.drop { $0 == UInt8(ascii: " ") }.prefix { $0 != 0 && $0 != UInt8(ascii: " ") }
        return String(validating: digits, as: UTF8.self).flatMap { Int64($0, radix: 8) }
    }
}

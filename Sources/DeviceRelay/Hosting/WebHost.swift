// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Classifies the host of a web URI by its spelling. No name is resolved, so a public name may still lead to an address
/// of the local network.
package enum WebHost {
    /// Whether the host is certainly on the Internet. Spellings that programs read in different ways are rejected: user
    /// information, percent-encoding, and IPv4 addresses in any form but four decimal numbers.
    package static func isOnInternet(_ uri: LaunchURI) -> Bool {
        let bytes = Array(uri.text.utf8)
        guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")) else { return false }
        // For http and https, browsers accept any number of slashes, including none.
        let rest = bytes[bytes.index(after: colon)...].drop { $0 == UInt8(ascii: "/") }
        let authority = rest.prefix { ![UInt8(ascii: "/"), UInt8(ascii: "?"), UInt8(ascii: "#")].contains($0) }
        guard !authority.contains(UInt8(ascii: "@")) else { return false }
        if authority.first == UInt8(ascii: "[") {
            guard let end = authority.firstIndex(of: UInt8(ascii: "]")), isPort(authority[authority.index(after: end)...]) else {
                return false
            }
            return isPublicIPv6(authority[authority.index(after: authority.startIndex)..<end])
        }
        let end = authority.firstIndex(of: UInt8(ascii: ":")) ?? authority.endIndex
        return isPort(authority[end...]) && isPublicName(authority[..<end])
    }

    /// Whether the bytes are empty, or a colon and digits.
    private static func isPort(_ bytes: ArraySlice<UInt8>) -> Bool {
        bytes.isEmpty || bytes.first == UInt8(ascii: ":") && bytes.dropFirst().allSatisfy(isDigit)
    }

    // MARK: Names

    /// Top-level labels that no public name server answers and that home and company networks use.
    private static let localEnds: Set<String> = [
        "arpa", "box", "corp", "dlink", "home", "internal", "intranet", "invalid", "ip", "lan", "local", "localdomain", "localhost",
        "localnet", "private", "router", "test", "wlan", "workgroup",
    ]

    private static func isPublicName(_ bytes: ArraySlice<UInt8>) -> Bool {
        // A name may end with the dot of the DNS root.
        let host = bytes.last == UInt8(ascii: ".") ? bytes.dropLast() : bytes
        let labels = host.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard labels.count > 1, let last = labels.last, let first = last.first else { return false }
        guard labels.allSatisfy({ !$0.isEmpty && $0.allSatisfy(isNameByte) }) else { return false }
        // A last label that starts with a digit is part of an address in some notation.
        if isDigit(first) { return isPublicIPv4(labels) }
        return isLetter(first) && !localEnds.contains(String(decoding: last, as: UTF8.self).lowercased())
    }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        isLetter(byte) || isDigit(byte) || byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    private static func isLetter(_ byte: UInt8) -> Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20) }

    // MARK: Addresses

    /// IPv4 networks that are not public (RFC 6890 and its updates), and multicast.
    private static let localIPv4: [(network: UInt32, length: UInt32)] = [
        (0x0000_0000, 8), (0x0A00_0000, 8), (0x6440_0000, 10), (0x7F00_0000, 8), (0xA9FE_0000, 16), (0xAC10_0000, 12), (0xC000_0000, 24),
        (0xC000_0200, 24), (0xC058_6300, 24), (0xC0A8_0000, 16), (0xC612_0000, 15), (0xC633_6400, 24), (0xCB00_7100, 24),
        (0xE000_0000, 3),
    ]

    /// Whether the labels are a public IPv4 address: four decimal numbers without leading zeros, which some programs read as octal.
    private static func isPublicIPv4(_ labels: [ArraySlice<UInt8>]) -> Bool {
        guard labels.count == 4 else { return false }
        var address: UInt32 = 0
        for label in labels {
            guard label.count <= 3, label.allSatisfy(isDigit), label.count == 1 || label.first != UInt8(ascii: "0") else { return false }
            let number = label.reduce(UInt32(0)) { $0 * 10 + UInt32($1 - UInt8(ascii: "0")) }
            guard number <= 255 else { return false }
            address = address << 8 | number
        }
        return !localIPv4.contains { (address ^ $0.network) >> (32 - $0.length) == 0 }
    }

    /// Whether the bytes are an address of 2000::/3 outside its special ranges.
    private static func isPublicIPv6(_ bytes: ArraySlice<UInt8>) -> Bool {
        var address = in6_addr()
        guard inet_pton(AF_INET6, String(decoding: bytes, as: UTF8.self), &address) == 1 else { return false }
        let (first, second) = withUnsafeBytes(of: address) { (UInt16($0[0]) << 8 | UInt16($0[1]), UInt16($0[2]) << 8 | UInt16($0[3])) }
        guard first >> 13 == 0b001 else { return false }
        return switch first {
        // 2001::/23 holds protocol assignments such as Teredo; 2001:db8::/32 is for documentation.
        case 0x2001: second >= 0x0200 && second != 0x0DB8
        // A 6to4 address contains an IPv4 address.
        case 0x2002: false
        // 3fff::/20 is for documentation.
        case 0x3FFF: second >= 0x1000
        default: true
        }
    }
}

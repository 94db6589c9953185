// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

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

    /// Whether the labels are a public IPv4 address: four decimal numbers without leading zeros, which some programs read as octal.
    private static func isPublicIPv4(_ labels: [ArraySlice<UInt8>]) -> Bool {
        guard labels.count == 4, labels.allSatisfy({ $0.allSatisfy(isDigit) && ($0.count == 1 || $0.first != UInt8(ascii: "0")) }) else {
            return false
        }
        return IPAddress(parsing: Array(labels.joined(separator: [UInt8(ascii: ".")])))?.isPublic ?? false
    }

    /// Whether the bytes are a public IPv6 address that contains no IPv4 address, which some programs dial instead.
    private static func isPublicIPv6(_ bytes: ArraySlice<UInt8>) -> Bool {
        guard let address = IPAddress(parsing: bytes), address.bytes.count == 16, address.contained == nil else { return false }
        return address.isPublic
    }
}

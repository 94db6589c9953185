// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

/// Distinguishes addresses of the public Internet from those of local networks and special use (RFC 6890).
package enum PublicAddress {
    package static func isPublic(_ address: SocketAddress) -> Bool {
        switch address {
        case .v4: isPublic(ipv4: bytes(of: address, at: 4..<8))
        case .v6: isPublic(ipv6: bytes(of: address, at: 8..<24))
        case .unixDomainSocket: false
        }
    }

    /// Returns the bytes of the address. They follow the family and port, and in IPv6 also the flow (RFC 3493 §3.3).
    private static func bytes(of address: SocketAddress, at place: Range<Int>) -> [UInt8] {
        address.withSockAddr { pointer, size in
            place.upperBound <= size ? Array(UnsafeRawBufferPointer(start: pointer, count: size)[place]) : []
        }
    }

    private static let blockedIPv4: [(prefix: [UInt8], length: Int)] = [
        ([0, 0, 0, 0], 8), ([10, 0, 0, 0], 8), ([100, 64, 0, 0], 10), ([127, 0, 0, 0], 8), ([169, 254, 0, 0], 16), ([172, 16, 0, 0], 12),
        ([192, 0, 0, 0], 24), ([192, 0, 2, 0], 24), ([192, 88, 99, 0], 24), ([192, 168, 0, 0], 16), ([198, 18, 0, 0], 15),
        ([198, 51, 100, 0], 24), ([203, 0, 113, 0], 24), ([224, 0, 0, 0], 4), ([240, 0, 0, 0], 4),
    ]

    static func isPublic(ipv4 bytes: [UInt8]) -> Bool {
        bytes.count == 4 && !blockedIPv4.contains { begins(bytes, with: $0.prefix, bits: $0.length) }
    }

    /// Global unicast is 2000::/3. An IPv4-mapped, NAT64 or 6to4 address is judged by the IPv4 address that it contains.
    static func isPublic(ipv6 bytes: [UInt8]) -> Bool {
        guard bytes.count == 16 else { return false }
        // IPv4-mapped, and the well-known prefix of NAT64 (RFC 6052).
        if begins(bytes, with: Array(repeating: 0, count: 10) + [0xFF, 0xFF], bits: 96)
            || begins(bytes, with: [0, 0x64, 0xFF, 0x9B] + Array(repeating: 0, count: 8), bits: 96)
        {
            return isPublic(ipv4: Array(bytes[12...]))
        }
        // 6to4.
        if begins(bytes, with: [0x20, 0x02], bits: 16) { return isPublic(ipv4: Array(bytes[2..<6])) }
        // Teredo and other protocol assignments, and documentation.
        if begins(bytes, with: [0x20, 0x01, 0x00], bits: 23) || begins(bytes, with: [0x20, 0x01, 0x0D, 0xB8], bits: 32) { return false }
        if begins(bytes, with: [0x3F, 0xFF, 0x00], bits: 20) { return false }
        return begins(bytes, with: [0x20], bits: 3)
    }

    private static func begins(_ bytes: [UInt8], with prefix: [UInt8], bits: Int) -> Bool {
        let whole = bits / 8
        guard bytes.prefix(whole).elementsEqual(prefix.prefix(whole)) else { return false }
        let rest = bits % 8
        guard rest > 0 else { return true }
        guard bytes.count > whole, prefix.count > whole else { return false }
        return (bytes[whole] ^ prefix[whole]) >> UInt8(8 - rest) == 0
    }
}

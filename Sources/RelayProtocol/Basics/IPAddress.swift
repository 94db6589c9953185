// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import NIOCore

/// An IPv4 or IPv6 address. An IPv4-mapped IPv6 address is stored as IPv4.
package struct IPAddress: Hashable, Sendable, CustomStringConvertible {
    /// 4 or 16 bytes.
    package let bytes: [UInt8]

    private init(_ bytes: [UInt8]) {
        let mapped: [UInt8] = Array(repeating: 0, count: 10) + [0xFF, 0xFF]
        self.bytes = bytes.count == 16 && bytes.starts(with: mapped) ? Array(bytes.suffix(4)) : bytes
    }

    /// - Returns: `nil` unless there are 4 or 16 bytes.
    package init?(bytes: [UInt8]) {
        guard bytes.count == 4 || bytes.count == 16 else { return nil }
        self.init(bytes)
    }

    /// The address of a connection's end; `nil` for a Unix socket.
    package init?(_ address: SocketAddress?) {
        // The address follows family and port, and in IPv6 also the flow label (RFC 3493 §3.3).
        let place: Range<Int>
        switch address {
        case .v4: place = 4..<8
        case .v6: place = 8..<24
        case .unixDomainSocket, nil: return nil
        }
        guard let bytes = address?.withSockAddr({ Array(UnsafeRawBufferPointer(start: $0, count: $1)[place]) }) else { return nil }
        self.init(bytes)
    }

    /// Parses an address without port, brackets and zone (RFC 4291 §2.2, or dotted decimal).
    package init?(parsing text: some Collection<UInt8>) {
        guard (2...45).contains(text.count), text.allSatisfy({ Self.isPartOfAddress($0) }),
            let address = try? SocketAddress(ipAddress: String(decoding: text, as: UTF8.self), port: 0)
        else { return nil }
        self.init(address)
    }

    private static func isPartOfAddress(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"), UInt8(ascii: "A")...UInt8(ascii: "F"),
            UInt8(ascii: "."), UInt8(ascii: ":"):
            true
        default: false
        }
    }

    /// The network that limits count as one address: for IPv6 64 bits, because one household has all addresses in such a network.
    package var network: IPNetwork { IPNetwork(self, prefixLength: bytes.count == 4 ? 32 : 64) }

    /// This network and the larger ones that providers give to one customer, the smallest first.
    package var networks: [IPNetwork] { (bytes.count == 4 ? [32] : [64, 56, 48]).map { IPNetwork(self, prefixLength: $0) } }

    package var description: String {
        (try? SocketAddress(packedIPAddress: ByteBuffer(bytes: bytes), port: 0).ipAddress) ?? ""
    }
}

extension IPAddress {
    /// Of this machine (RFC 1122 §3.2.1.3, RFC 4291 §2.5.3), also as "any address", which the system dials as loopback.
    package var isLoopback: Bool {
        bytes.count == 4 ? bytes[0] == 127 || bytes[0] == 0 : bytes.dropLast().allSatisfy { $0 == 0 } && (bytes.last ?? 0) <= 1
    }

    /// Whether it is an address of the public Internet, not of a local network or of special use. An address that contains an IPv4 address
    /// is judged by that one.
    package var isPublic: Bool {
        if let contained { return contained.isPublic }
        return (bytes.count == 4 || IPNetwork.globalUnicast.contains(self)) && !IPNetwork.special.contains { $0.contains(self) }
    }

    /// The IPv4 address in an address of NAT64 (RFC 6052, the well-known prefix) or 6to4 (RFC 3056).
    package var contained: IPAddress? {
        if IPNetwork.nat64.contains(self) { return IPAddress(Array(bytes[12...])) }
        if IPNetwork.sixToFour.contains(self) { return IPAddress(Array(bytes[2..<6])) }
        return nil
    }
}

/// Addresses with a common prefix, such as `10.0.0.0/8`.
package struct IPNetwork: Hashable, Sendable, CustomStringConvertible {
    private let bytes: [UInt8]
    private let prefixLength: Int

    /// - Parameter prefixLength: in bits, at most the address's length.
    init(_ address: IPAddress, prefixLength: Int) {
        let length = min(max(0, prefixLength), address.bytes.count * 8)
        self.prefixLength = length
        self.bytes = address.bytes.enumerated().map { index, byte in
            let bits = min(max(0, length - index * 8), 8)
            return bits == 0 ? 0 : byte & (0xFF << UInt8(8 - bits))
        }
    }

    /// Parses an address, or an address, a slash and a prefix length (RFC 4632 §3.1, RFC 4291 §2.3).
    package init?(parsing text: String) {
        let parts = text.utf8.split(separator: UInt8(ascii: "/"), maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = parts.first, let address = IPAddress(parsing: first) else { return nil }
        let bits = address.bytes.count * 8
        guard parts.count == 2 else {
            self.init(address, prefixLength: bits)
            return
        }
        guard (1...3).contains(parts[1].count), parts[1].allSatisfy({ (0x30...0x39).contains($0) }),
            let length = Int(String(decoding: parts[1], as: UTF8.self)), length <= bits
        else { return nil }
        self.init(address, prefixLength: length)
    }

    package func contains(_ address: IPAddress) -> Bool {
        guard address.bytes.count == bytes.count else { return false }
        let (whole, rest) = prefixLength.quotientAndRemainder(dividingBy: 8)
        guard bytes.prefix(whole).elementsEqual(address.bytes.prefix(whole)) else { return false }
        return rest == 0 || (bytes[whole] ^ address.bytes[whole]) >> UInt8(8 - rest) == 0
    }

    package var description: String {
        let address = (try? SocketAddress(packedIPAddress: ByteBuffer(bytes: bytes), port: 0).ipAddress) ?? ""
        return "\(address)/\(prefixLength)"
    }
}

extension IPNetwork {
    /// Networks of special use (RFC 6890 and its updates), and multicast. In IPv6, only those of global unicast.
    fileprivate static let special = [
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
        "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3", "2001::/23",
        "2001:db8::/32", "3fff::/20",
    ].map(constant)
    fileprivate static let globalUnicast = constant("2000::/3")
    fileprivate static let nat64 = constant("64:ff9b::/96")
    fileprivate static let sixToFour = constant("2002::/16")

    /// A network that this file names.
    private static func constant(_ text: String) -> IPNetwork {
        guard let network = IPNetwork(parsing: text) else { preconditionFailure("\(text) is no network") }
        return network
    }
}

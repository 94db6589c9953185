// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayStorage

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The user at the other end of a connection on this machine.
enum LoopbackPeer {
    /// Whether the peer of a connection runs as the user of this process. Only Linux can tell; elsewhere it is always true, and also where
    /// the table of connections cannot be read.
    static func isOfThisUser(_ channel: any Channel) -> Bool {
        #if os(Linux)
        guard let peer = channel.remoteAddress?.port, let own = channel.localAddress?.port else { return false }
        var isReadable = false
        // A browser may use an IPv6 socket for an IPv4 address.
        for path in ["/proc/net/tcp", "/proc/net/tcp6"] {
            guard let table = try? StorageFile(reading: path) else { continue }
            isReadable = true
            if let user = user(of: peer, connectedTo: own, next: { try? table.next(64 << 10) }) { return user == getuid() }
        }
        return !isReadable
        #else
        return true
        #endif
    }

    /// Searches a table in pieces, because others on this machine decide how long it is.
    /// - Parameter next: The next bytes of the table; `nil` or none at its end.
    static func user(of port: Int, connectedTo other: Int, next: () -> [UInt8]?) -> UInt32? {
        var rest: [UInt8] = []
        while let piece = next(), !piece.isEmpty {
            rest += piece
            guard let end = rest.lastIndex(of: UInt8(ascii: "\n")) else {
                if rest.count > longestLine { return nil }
                continue
            }
            if let user = user(of: port, connectedTo: other, in: Array(rest[...end])) { return user }
            rest.removeSubrange(...end)
        }
        return user(of: port, connectedTo: other, in: rest)
    }

    private static let longestLine = 64 << 10

    /// The user id of the socket with one port that is connected to another, of a table in the form of `/proc/net/tcp`; `nil` if there is none.
    static func user(of port: Int, connectedTo other: Int, in table: [UInt8]) -> UInt32? {
        for line in table.split(separator: UInt8(ascii: "\n")) {
            let fields = line.split(separator: UInt8(ascii: " "))
            guard fields.count > 7, Self.port(fields[1]) == port, Self.port(fields[2]) == other, isLoopback(fields[2]) else { continue }
            // Connections that no process owns any more have the user 0.
            guard fields[3].elementsEqual("01".utf8) else { continue }
            return UInt32(String(decoding: fields[7], as: UTF8.self))
        }
        return nil
    }

    /// An address is written in words of the machine's byte order, then a colon and the port.
    private static func port(_ field: ArraySlice<UInt8>) -> Int? {
        guard let colon = field.lastIndex(of: UInt8(ascii: ":")) else { return nil }
        return Int(String(decoding: field[(colon + 1)...], as: UTF8.self), radix: 16)
    }

    /// Whether an address is 127.0.0.1, perhaps as an IPv4-mapped one.
    private static func isLoopback(_ field: ArraySlice<UInt8>) -> Bool {
        let address = field.prefix { $0 != UInt8(ascii: ":") }.suffix(8)
        return address.elementsEqual("0100007F".utf8) || address.elementsEqual("7F000001".utf8)
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The neighbours that Linux knows on its links in IPv4: the text of `/proc/net/arp`.
package struct NeighbourTable: Hashable, Sendable {
    private static let maximumLines = 4_096
    /// `ATF_COM`: the hardware address is known.
    private static let complete: UInt32 = 2

    private var isKnown: [IPAddress: Bool] = [:]

    /// Lines that are no entry, such as the heading, are left out.
    package init(arp text: String) {
        for line in text.utf8.split(separator: UInt8(ascii: "\n")).prefix(Self.maximumLines) {
            let columns = line.split(separator: UInt8(ascii: " "), maxSplits: 3)
            guard columns.count == 4, let address = IPAddress(parsing: columns[0]), columns[2].starts(with: "0x".utf8),
                let flags = UInt32(String(decoding: columns[2].dropFirst(2), as: UTF8.self), radix: 16)
            else { continue }
            // The same address may be on several links.
            isKnown[address] = isKnown[address] ?? false || flags & Self.complete != 0
        }
    }

    package subscript(address: IPAddress) -> DialReport.Neighbour {
        guard let isKnown = isKnown[address] else { return .unknown }
        return isKnown ? .known : .missing
    }
}

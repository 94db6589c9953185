// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol

/// The neighbours that the system knows on its links.
enum SystemNeighbours {
    /// Linux tells those of IPv4; nothing is known of others.
    static func read() -> NeighbourTable {
        #if os(Linux)
        let text = FileManager.default.contents(atPath: "/proc/net/arp").map { String(decoding: $0, as: UTF8.self) }
        return NeighbourTable(arp: text ?? "")
        #else
        return NeighbourTable(arp: "")
        #endif
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay

/// The objects that a session holds.
enum Inventory {
    /// Returns when nothing but what stays has been there for a turn; whoever waits for what does not go runs into the test's time limit.
    static func settled(_ session: PeerSession) async -> [String: Int] {
        var inventory = await session.inventory()
        while inventory["services", default: 0] > 0 {
            await Task.yield()
            inventory = await session.inventory()
        }
        return inventory
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay

/// The objects that a session holds.
enum Inventory {
    /// Returns when only the expected objects remain. If others never end, the time limit of the test ends the wait.
    static func settled(_ session: PeerSession) async -> [String: Int] {
        var inventory = await session.inventory()
        while inventory["services", default: 0] > 0 {
            await Task.yield()
            inventory = await session.inventory()
        }
        return inventory
    }
}

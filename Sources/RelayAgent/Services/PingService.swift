// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay

/// Answers each message with the same: what `relay ping` measures by. It tells nothing that the caller does not know.
enum PingService {
    static let name = "ping"
    /// The apps of a device that offer it when no app is named, the first that does is taken.
    static let appIDs = ["org.device-relay.agent", "org.device-relay.cli"]

    static let service = Service(name) { connection, _ in
        try await connection.respond { $0.message }
    }
}

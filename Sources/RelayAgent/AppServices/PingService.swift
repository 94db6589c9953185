// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay

/// Answers each message with the same message, for `relay ping`. It reveals nothing that the caller does not know.
enum PingService {
    static let name = "ping"
    static let service = AppService(name) { connection, _ in
        try await connection.respond { $0.message }
    }
}

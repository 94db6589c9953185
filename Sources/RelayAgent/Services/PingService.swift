// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay

/// Answers each message with the same message: what `relay ping` measures.
enum PingService {
    static let name = "ping"

    static var service: Service {
        Service(name) { connection, _ in try await connection.respond { $0.message } }
    }
}

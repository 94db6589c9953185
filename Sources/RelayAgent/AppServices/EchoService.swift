// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Answers with the message and the caller's identity, to show what a service sees.
enum EchoService {
    static let name = "echo"

    static var service: AppService {
        AppService(name) { connection, caller in
            try await connection.respond { request in
                [
                    "message": .valueSet(request.message),
                    "from": .valueSet([
                        "device": .string("\(caller.systemID)"), "name": .string(caller.deviceName),
                        "endpoint": .string("\(caller.endpoint)"),
                    ]),
                ]
            }
        }
    }
}

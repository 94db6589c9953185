// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Answers with the message and who sent it, for people who want to see what a service is told.
enum EchoService {
    static let name = "echo"

    static var service: Service {
        Service(name) { connection, caller in
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

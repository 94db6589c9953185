// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import ExampleSupport
import Foundation

// The original's test service: it answers a ping with a pong that has the same date and target.

let appID = "org.example.pingpong"
let service = AppServiceInfo(name: "org.example.pingpongservice", appID: appID)

struct Ping: AppServiceCall {
    struct Response: Codable, Sendable {
        var kind: String
        var created: Date
        var target: String

        enum CodingKeys: String, CodingKey {
            case kind = "Type"
            case created = "CreationDate"
            case target = "TargetId"
        }
    }

    static let type = "ping"
    var created: Date
    var target: String

    enum CodingKeys: String, CodingKey {
        case created = "CreationDate"
        case target = "TargetId"
    }
}

let app = RemoteSystemAppRegistration(
    appID: appID,
    displayName: "Ping pong",
    services: [
        AppService(service.name) { connection, caller in
            say("connected: \(caller.deviceName)")
            try await connection.respond { request in
                guard request.message["Type"]?.string == "ping" else { throw AppServiceError(.invalidMessage) }
                // The answer repeats the date and the target.
                var answer = request.message
                answer["Type"] = "pong"
                return answer
            }
        }
    ]
)

func ping(_ name: String, in directory: String) async throws {
    try await ExampleDevice.with(directory, app: appID) { device in
        let system = try await device.system(named: name, with: [appID])
        try await device.platform.withAppService(service, on: .init(system)) { connection in
            for _ in 1...3 {
                // The original sent whole seconds.
                let now = Date(timeIntervalSince1970: Date.now.timeIntervalSince1970.rounded())
                let ping = Ping(created: now, target: "\(system.id)")
                let start = ContinuousClock.now
                let pong = try await connection.call(ping)
                guard pong.kind == "pong", pong.created == ping.created, pong.target == ping.target else {
                    throw Problem("that was no answer to this ping")
                }
                say("\(pong.kind) from \(system.displayName) after \(ContinuousClock.now - start)")
            }
        }
    }
}

@main
enum Program {
    static func main() async {
        await run(usage: "PingPong DIRECTORY (join NAME | host | ping DEVICE)") { arguments in
            switch arguments.count {
            case 3 where arguments[1] == "join": try await ExampleDevice.join(as: arguments[2], in: arguments[0], app: appID)
            case 2 where arguments[1] == "host": try await ExampleDevice.host(app, in: arguments[0])
            case 3 where arguments[1] == "ping": try await ping(arguments[2], in: arguments[0])
            default: return false
            }
            return true
        }
    }
}

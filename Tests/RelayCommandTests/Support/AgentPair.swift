// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

/// Two devices: Desk runs the agent, and TV takes launches and calls.
struct AgentPair {
    let account: TestAccount
    let desk: TestDevice
    let tv: TestDevice
    let agent: RelayProcess
    let host: RelayProcess

    /// - Parameter isMutual: Whether Desk also knows TV, because it has invited it.
    init(_ settings: String = "", isMutual: Bool = false) async throws {
        account = try await TestAccount()
        desk = try await account.device(named: "Desk")
        if isMutual {
            tv = try TestDevice(in: FileManager.default.temporaryDirectory)
            let link = try #require(try await desk.relay("invite", "--json").json["link"] as? String)
            #expect(try await tv.relay("join", link, "--name", "TV").status == 0)
        } else {
            tv = try await account.device(named: "TV")
        }
        host = try await tv.host("--app", "com.example.player", "--scheme", "https")
        agent = try await desk.agent(settings)
    }
}

/// Requests to an agent, as a script makes them.
enum AgentAPI {
    struct Answer {
        var status: Int
        var text: String
        var json: [String: Any] { get throws { try JSON.object(text) } }
        var code: String? { (try? json["code"]) as? String }
    }

    struct Failed: Error {
        var output: CommandOutput
    }

    /// A request on the socket of a device.
    static func curl(_ device: TestDevice, _ path: String, _ arguments: String...) async throws -> Answer {
        try await curl(device, path, arguments)
    }

    static func curl(_ device: TestDevice, _ path: String, _ arguments: [String]) async throws -> Answer {
        try await curl(["--unix-socket", try socket(device), "http://relay\(path)"] + arguments)
    }

    static func curl(_ device: TestDevice, _ path: String, all arguments: [String]) async throws -> Answer {
        try await curl(["--unix-socket", try socket(device), "http://relay\(path)"] + arguments)
    }

    /// A request that goes on.
    static func start(_ device: TestDevice, _ path: String, _ arguments: String...) throws -> RelayProcess {
        let arguments = ["-s", "--path-as-is", "--unix-socket", try socket(device), "http://relay\(path)"] + arguments
        return try RelayProcess(arguments, executable: executable, environment: [:])
    }

    /// A request to any address.
    static func curl(url: String, _ arguments: String...) async throws -> Answer { try await curl([url] + arguments) }

    static func post(_ device: TestDevice, _ path: String, _ body: String, _ headers: String...) async throws -> Answer {
        try await post(device, path, body, headers)
    }

    static func post(_ device: TestDevice, _ path: String, _ body: String, _ headers: [String]) async throws -> Answer {
        let headers = headers.flatMap { ["-H", $0] } + ["-H", "Content-Type: application/json"]
        return try await curl(["--unix-socket", try socket(device), "http://relay\(path)", "--data-binary", "@-"] + headers, input: body)
    }

    /// A stream of events.
    static func stream(_ device: TestDevice, _ arguments: String...) throws -> RelayProcess {
        let arguments = ["-sN", "--unix-socket", try socket(device), "http://relay/v1/events"] + arguments
        return try RelayProcess(arguments, executable: executable, environment: [:])
    }

    static let executable = URL(filePath: "/usr/bin/curl")

    private static func socket(_ device: TestDevice) throws -> String {
        let file = try JSON.object(String(contentsOfFile: device.home + "/agent.json", encoding: .utf8))
        return try #require(file["socket"] as? String)
    }

    static func curl(_ arguments: [String], input: String? = nil) async throws -> Answer {
        let process = try RelayProcess(
            ["-s", "-w", "\n%{http_code}", "--path-as-is"] + arguments,
            executable: executable,
            environment: [:],
            hasInput: input != nil
        )
        if let input {
            try process.write(input)
            try process.endInput()
        }
        let output = await process.finish()
        guard output.status == 0, let status = output.output.last.flatMap({ Int($0) }) else { throw Failed(output: output) }
        return Answer(status: status, text: output.output.dropLast().filter { !$0.isEmpty }.joined(separator: "\n"))
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// A receiver of webhooks, which verifies each message by the package standardwebhooks.
final class WebhookReceiver {
    struct Message {
        var path: String
        var id: String
        /// Whether it is signed with each secret, in their order.
        var verified: [Bool]
        var signatures: Int
        var type: String
        var data: [String: Any]

        var command: String? { data["command"] as? String }
        var status: String? { data["status"] as? String }
        var isFinal: Bool { type == "command.final" }
    }

    let port: Int
    private let process: RelayProcess
    /// Messages that came before the answer to a command.
    private var early: [Message] = []

    static var isAvailable: Bool { PythonScript.isAvailable }

    /// - Parameters:
    ///   - port: `nil` for any.
    ///   - certificate: The name that its certificate is for, and the file that gets this; `nil` for plain http.
    init(port: Int? = nil, certificate: (name: String, file: String)? = nil) async throws {
        self.port = try port ?? FreePort.take()
        let script = Project.root.appending(path: "scripts/webhook-receiver.py").path
        process = try RelayProcess(
            [script, "\(self.port)"] + (certificate.map { [$0.name, $0.file] } ?? []),
            executable: Project.python,
            environment: [:],
            hasInput: true
        )
        _ = try await process.line()
    }

    var url: String { "http://127.0.0.1:\(port)/hook?a=b" }

    /// Gives it a command.
    func tell(_ command: String) async throws {
        try process.write(command + "\n")
        let line = try await process.line { line in
            if let message = Self.message(line) { early.append(message) }
            return line.contains(#""done""#)
        }
        #expect(line.contains(command.prefix { $0 != " " }))
    }

    /// The next message.
    func next() async throws -> Message {
        guard early.isEmpty else { return early.removeFirst() }
        return try #require(Self.message(try await process.line { $0.contains(#""path""#) }))
    }

    /// The messages up to the first one that fulfils a condition.
    func messages(until isLast: (Message) -> Bool) async throws -> [Message] {
        var all: [Message] = []
        while true {
            let message = try await next()
            all.append(message)
            if isLast(message) { return all }
        }
    }

    private static func message(_ line: String) -> Message? {
        guard let object = try? JSON.object(line), let path = object["path"] as? String, let id = object["id"] as? String,
            let content = object["message"] as? [String: Any], let type = content["type"] as? String
        else { return nil }
        return Message(
            path: path,
            id: id,
            verified: object["verified"] as? [Bool] ?? [],
            signatures: object["signatures"] as? Int ?? 0,
            type: type,
            data: content["data"] as? [String: Any] ?? [:]
        )
    }
}

extension AgentAPI {
    struct NewWebhook {
        var id: String
        var secret: String
    }

    /// Makes a webhook.
    /// - Parameter more: Further fields of the body.
    static func webhook(
        _ device: TestDevice,
        _ url: String,
        types: String = #"["command.progress", "command.final"]"#,
        more: String = "",
        _ headers: String...
    ) async throws -> NewWebhook {
        let answer = try await post(device, "/v1/webhooks", #"{"url": "\#(url)", "types": \#(types)\#(more)}"#, headers)
        #expect(answer.status == 201, "\(answer.text)")
        let webhook = try #require(try answer.json["webhook"] as? [String: Any])
        return NewWebhook(id: try #require(webhook["id"] as? String), secret: try #require(webhook["secret"] as? String))
    }

    /// The webhooks that a request sees.
    static func webhooks(_ device: TestDevice, _ arguments: String...) async throws -> [[String: Any]] {
        try #require(try await curl(device, "/v1/webhooks", arguments).json["webhooks"] as? [[String: Any]])
    }

    static func deliveries(_ device: TestDevice, of webhook: NewWebhook) async throws -> [[String: Any]] {
        try #require(try await curl(device, "/v1/webhooks/\(webhook.id)/deliveries").json["deliveries"] as? [[String: Any]])
    }

    /// Launches a link on TV.
    /// - Returns: The command.
    static func launch(_ device: TestDevice, _ uri: String = "https://films.example/42", _ headers: String...) async throws -> String {
        let answer = try await post(device, "/v1/launches", #"{"device":"TV","uri":"\#(uri)"}"#, headers)
        return try #require(try answer.json["command"] as? String, "\(answer.text)")
    }
}

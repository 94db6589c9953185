// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// A request of the API, as a client writes it and a route reads it.
package struct APIRequest: Sendable {
    enum Method: String, Sendable {
        case get = "GET"
        case post = "POST"
        case delete = "DELETE"
    }

    var method: Method
    /// The path below `/v1`, with each segment encoded.
    var path: String
    var query: [(name: String, value: String)] = []
    /// The body, as JSON.
    var body: [UInt8]?
    /// How long to wait for the outcome of a command; `nil` for no wait.
    var wait: Duration?
    /// Whether the wait ends as soon as the relay has the command.
    var waitsForRelayOnly = false
    /// How long the answer may take besides.
    var patience = Duration.zero
    /// Whether the call has an `Idempotency-Key`, which makes a repeat the same command.
    var hasKey = false
    /// Whether the client repeats the request after an `Interruption`. Otherwise that is a failure as any other.
    var isRepeated = false

    init(_ method: Method, _ segments: String..., query: [(name: String, value: String)] = []) {
        self.init(method, segments: segments, query: query)
    }

    init(_ method: Method, segments: [String], query: [(name: String, value: String)] = []) {
        self.method = method
        path = segments.map { "/" + Self.encoded($0) }.joined()
        self.query = query
    }

    func with(body: some Encodable) throws -> APIRequest {
        var call = self
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        call.body = Array(try encoder.encode(body))
        return call
    }

    var target: String {
        let query = query.map { "\(Self.encoded($0.name))=\(Self.encoded($0.value))" }.joined(separator: "&")
        return "/v1\(path)" + (query.isEmpty ? "" : "?\(query)")
    }

    /// One segment of a path. `/` and `.` in it are encoded, too, so that a name is never two segments and never a parent.
    private static func encoded(_ text: String) -> String {
        let allowed = CharacterSet(charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_~")
        return text.addingPercentEncoding(withAllowedCharacters: allowed) ?? ""
    }
}

/// A command that the running agent does for `relay`, by one request of its API.
package protocol RoutedCommand: DeviceCommand where Result: Decodable {
    func request() throws -> APIRequest
    /// The result of an answer's body.
    func result(of body: [UInt8]) throws -> Result
    /// Completes what the answer does not say.
    func completed(_ result: Result) throws -> Result
    /// Whether the answer says all that is waited for. If not, the call is repeated with the same key until its wait is over.
    func isFinal(_ result: Result) -> Bool
    /// What a person sees meanwhile.
    func waitingText(_ result: Result) -> String
    /// What a person sees until the first answer, if that can take long.
    var waitingText: String? { get }
}

extension RoutedCommand {
    package func result(of body: [UInt8]) throws -> Result { try JSONText.decoder.decode(Result.self, from: Data(body)) }
    package func completed(_ result: Result) throws -> Result { result }
    package func isFinal(_ result: Result) -> Bool { true }
    package func waitingText(_ result: Result) -> String { "waiting" }
    package var waitingText: String? { nil }

    /// Runs it by the agent of the home if one runs, else on a device that is made for it.
    package func run(_ context: AgentContext) async throws -> Result { try await context.run(self) }
}

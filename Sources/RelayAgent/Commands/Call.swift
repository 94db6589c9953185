// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// Sends requests to an app service of another device.
package struct Call: Sendable {
    package enum Input: Hashable, Sendable {
        /// One message, as JSON.
        case message(String)
        /// One message, as JSON on standard input.
        case standardInput
        /// One message in each line of standard input, over one connection. Each request waits for the answer to the previous one.
        case stream
    }

    var target: String
    var service: String
    var timeout: Duration
    /// Throws if the call may not go to the device with this id.
    var permit: @Sendable (String) throws -> Void = { _ in }

    /// - Parameters:
    ///   - target: A device, or one of its apps: `DEVICE/APP`.
    ///   - timeout: The time limit of each answer. The first one includes connecting.
    package init(target: String, service: String, timeout: Duration) {
        self.target = target
        self.service = service
        self.timeout = timeout
    }

    package struct Result: AgentResult {
        package var device: String
        package var deviceName: String
        package var app: String
        package var endpoint: String
        package var service: String
        /// The answer, as JSON text.
        var answer = "{}"

        enum CodingKeys: CodingKey { case device, deviceName, app, endpoint, service }

        package func lines(_ style: Style) -> [String] { [DisplayText.escaped(json: answer)] }
        package func json() throws -> String { try JSONText.line(self, adding: "answer", json: answer) }

        func waiting(_ place: RemoteSystemApp) -> String { "waiting for \(app) on \(deviceName): \(PresenceText.phrase(place.presence))" }

        func with(_ answer: ValueSet) throws -> Result {
            var result = self
            result.answer = try answer.json()
            return result
        }
    }

    /// Prints each answer when it arrives.
    package func run(_ context: AgentContext, sending input: Input) async throws {
        let lines = StandardInput()
        // An invalid message fails before the relay is contacted.
        let message: ValueSet
        switch input {
        case .message(let text): message = try Self.message(Array(text.utf8), "the message")
        case .standardInput: message = try Self.message(try await lines.all("a message", most: Self.maximumInput) ?? [], "the message")
        case .stream:
            return try await context.withAccount { local in
                try await run(on: local, sending: { try await Self.next(lines) }, report: context.console.print)
            }
        }
        try context.console.print(try await SingleCall(call: self, message: message).run(context))
    }

    /// Sends one message.
    func run(on local: LocalDevice, sending message: ValueSet) async throws -> Result {
        let (app, result) = try await app(on: local)
        let end = ContinuousClock.now + timeout
        return try await local.whileWaiting {
            result.waiting(app)
        } _: {
            let connection = try await local.open(service, of: app, timeout: timeout)
            defer { connection.close() }
            return try result.with(try await connection.send(message, timeout: max(.zero, ContinuousClock.now.duration(to: end))))
        }
    }

    /// Sends messages over one connection until there are no more, or the connection ends.
    /// - Parameters:
    ///   - next: The next message; `nil` for the end.
    ///   - report: Takes each answer.
    func run(
        on local: LocalDevice,
        sending next: @escaping @Sendable () async throws -> ValueSet?,
        report: @escaping @Sendable (Result) async throws -> Void
    ) async throws {
        let (app, result) = try await app(on: local)
        let connection = try await local.whileWaiting {
            result.waiting(app)
        } _: {
            try await local.open(service, of: app, timeout: timeout)
        }
        defer { connection.close() }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                while let message = try await next() {
                    try await report(try result.with(try await connection.send(message, timeout: timeout)))
                }
            }
            group.addTask {
                // A closed connection ends the command at once, not at the next message.
                throw try await connection.closed.error
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    private func app(on local: LocalDevice) async throws -> (RemoteSystemApp, Result) {
        try await local.waitForDevices()
        let (system, app) = try await local.app(offering: service, on: target)
        try permit("\(system.id)")
        let result = Result(
            device: "\(system.id)",
            deviceName: DisplayText.sanitized(system.displayName),
            app: DisplayText.sanitized(app.appID),
            endpoint: "\(app.endpoint)",
            service: DisplayText.sanitized(service)
        )
        return (app, result)
    }
}

/// A call with one message.
package struct SingleCall: RoutedCommand {
    let call: Call
    let message: ValueSet

    private struct Body: Encodable {
        var device: String
        var service: String
        var timeout: Double
    }

    package func request() throws -> APIRequest {
        let body = Body(device: call.target, service: call.service, timeout: call.timeout / .seconds(1))
        var request = APIRequest(.post, "calls")
        request.body = Array(try JSONText.object(body, adding: "message", json: try message.json()).utf8)
        request.wait = nil
        request.patience = call.timeout
        return request
    }

    /// The answer stays the text that it is: no number of it changes its form.
    package func result(of body: [UInt8]) throws -> Call.Result {
        var result = try JSONText.decoder.decode(Call.Result.self, from: Data(body))
        do throws(JSONError) {
            let answer: JSONValue = try JSONValue(parsing: body).member("answer")
            result.answer = String(decoding: answer.source, as: UTF8.self)
        } catch {
            throw AgentError("agentFailed", "the agent of this device answered without an answer", .failed)
        }
        return result
    }

    package var waitingText: String? { "waiting for the answer of '\(DisplayText.sanitized(call.target))'" }

    package func run(on local: LocalDevice) async throws -> Call.Result { try await call.run(on: local, sending: message) }
}

extension Call.Result: Decodable {
    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        device = try container.decode(String.self, forKey: .device)
        deviceName = try container.decode(String.self, forKey: .deviceName)
        app = try container.decode(String.self, forKey: .app)
        endpoint = try container.decode(String.self, forKey: .endpoint)
        service = try container.decode(String.self, forKey: .service)
    }
}

extension LocalDevice {
    /// Opens a connection to a service. If the app has no such service, the error lists the services that it has.
    func open(_ name: String, of app: RemoteSystemApp, timeout: Duration) async throws(AppServiceError) -> AppServiceConnection {
        let service = AppServiceInfo(name: name, appID: app.appID)
        do throws(AppServiceError) {
            return try await reaching(app) { () throws(AppServiceError) in
                try await platform.openAppService(service, on: RemoteSystemConnectionRequest(app), timeout: timeout)
            }
        } catch {
            guard error.code == .appServiceUnavailable else { throw error }
            let known = app.appServices.map(\.name).sorted().joined(separator: ", ")
            throw AppServiceError(error.code, message: "\(app.appID) has no service \(name); it has \(known.isEmpty ? "none" : known)")
        }
    }
}

// MARK: - Messages in JSON

extension Call {
    /// Four times the limit of a message: JSON needs more bytes for data and special characters.
    private static let maximumInput = 4 * Limits()[.messageBytes]

    static func message(_ json: [UInt8], _ what: String) throws -> ValueSet {
        do throws(ValueSetError) {
            return try ValueSet(json: json)
        } catch {
            var text = "\(what) cannot be sent: \(advice(error.code))"
            if !error.keyPath.isEmpty { text += ", in \(error.keyPath)" }
            if let offset = error.offset { text += ", at \(place(of: offset, in: json))" }
            throw AgentError("invalidMessage", text, .usage)
        }
    }

    /// The message of the next line that is not empty; `nil` at the end of the input.
    private static func next(_ input: StandardInput) async throws -> ValueSet? {
        while let line = try await input.line("a message", most: maximumInput) {
            if line.contains(where: { !$0.isJSONSpace }) { return try message(line, "line \(input.lineNumber) of the input") }
        }
        return nil
    }

    /// Line and column of a byte.
    private static func place(of offset: Int, in json: [UInt8]) -> String {
        let before = json.prefix(offset)
        let line = before.count { $0 == UInt8(ascii: "\n") } + 1
        let start = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
        return "line \(line), column \(String(decoding: before[start...], as: UTF8.self).count + 1)"
    }

    private static func advice(_ code: ValueSetError.Code) -> String {
        switch code {
        case .truncated: "it ends too early"
        case .trailingBytes: "something follows it; give one JSON object"
        case .notAValueSet: "it has to be a JSON object, such as {\"Type\": \"list\"}"
        case .nonStringKey: "a key has to be text in double quotes"
        case .duplicateKey: "a key occurs twice"
        case .mixedArray: "an array holds values of one kind only"
        case .unknownTag: "a key that begins with $ is a tag; there are $int, $double, $date, $uuid and $data, and $$ stands for a $"
        case .invalidTagContent: "this tag cannot have this value"
        case .unsupportedType: "there is no null: leave the member out, {\"a\": 1} instead of {\"a\": 1, \"b\": null}"
        case .invalidText: "this text is not valid Unicode"
        case .integerOutOfRange, .numberOutOfRange: "this number is too large"
        case .tooDeep: "it is nested too deep"
        case .tooManyValues: "it has too many values"
        default: "this is not JSON"
        }
    }
}

extension UInt8 {
    fileprivate var isJSONSpace: Bool { self == 0x20 || self == 0x09 || self == 0x0D || self == 0x0A }
}

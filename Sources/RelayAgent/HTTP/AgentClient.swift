// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import NIOHTTP1
import RelayProtocol

/// The running agent of a home, as `relay` uses it.
struct AgentClient: Sendable {
    let address: AgentAddress
    /// A command may carry a large message and its answer.
    private static let largestAnswer = 64 << 20
    /// What the agent itself may need, besides the wait that is asked for, in milliseconds.
    private static let patience: Int64 = 90_000

    /// The agent that runs now, if it has this version.
    /// - Returns: `nil` if none answers, or another version.
    static func find(_ home: Home, version: String) async -> AgentClient? {
        guard let address = AgentAddress.read(home) else { return nil }
        let client = AgentClient(address: address)
        guard let answer = try? await client.send(APIRequest(.get), timeout: 2_000), answer.status == 200,
            let about = try? Self.decoder.decode(About.self, from: Data(answer.body)), about.instance == address.instance,
            about.version == version
        else { return nil }
        return client
    }

    /// The agent of a command's home; `nil` if none runs, or if the command must not use it.
    static func find(_ context: AgentContext) async -> AgentClient? {
        guard context.usesAgent else { return nil }
        return await find(context.home, version: context.version)
    }

    /// The endpoints of the account; `nil` if the agent cannot ask the relay now.
    func endpoints() async throws -> [EndpointResult]? {
        let list = try await run(Devices(showsAll: true), waitingLine: nil)
        return list.current ? list.endpoints : nil
    }

    private struct About: Decodable {
        var instance: String
        var version: String
    }

    /// Lets the agent run a command.
    /// - Throws: The failure that the command has there.
    /// - Parameter waitingLine: Shows what it waits for; `nil` without a terminal.
    func run<Command: RoutedCommand>(_ command: Command, waitingLine: (@Sendable (String?) -> Void)?) async throws -> Command.Result {
        let call = try command.request()
        let key = call.hasKey ? "relay-\(UInt64.random(in: .min ... .max))" : nil
        guard let wait = call.wait else {
            let text = command.waitingText
            let body = try await WaitingLine(show: text == nil ? nil : waitingLine).whileWaiting(for: { text ?? "" }) {
                try await answer(to: call, nil, key)
            }
            return try command.completed(try command.result(of: body))
        }
        defer { waitingLine?(nil) }
        let end = ContinuousClock.now + wait
        // A person sees the progress.
        let longest = waitingLine == nil ? Self.longestWait : .seconds(2)
        // The first answer comes at once. It names what Ctrl-C leaves behind.
        var result = try command.result(of: try await answer(to: call, .zero, key))
        while !command.isFinal(result), ContinuousClock.now < end, !Task.isCancelled {
            waitingLine?(command.waitingText(result))
            do {
                let left = ContinuousClock.now.duration(to: end)
                result = try command.result(of: try await answer(to: call, min(left, longest), key))
            } catch is CancellationError {
                break
            }
        }
        return try command.completed(result)
    }

    private static let longestWait = Duration.seconds(60)

    /// The body of the answer to a request.
    func answer(to call: APIRequest, _ wait: Duration? = nil, _ key: String? = nil) async throws -> [UInt8] {
        let answer: HTTPAnswer
        do throws(RequestFailure) {
            answer = try await send(call, wait, key)
        } catch {
            if case .cancelled = error { throw CancellationError() }
            // What was sent may have run. With its key it can be sent again, by hand or by this process.
            throw AgentError.agentLost(call.method)
        }
        guard (200..<300).contains(answer.status) else {
            let problem = Self.problem(answer.status, answer.body)
            // Only what is repeated by itself looks at interruptions.
            throw call.isRepeated ? problem : (problem as? Interruption)?.failure ?? problem
        }
        return answer.body
    }

    private func send(
        _ call: APIRequest,
        _ wait: Duration? = nil,
        _ key: String? = nil,
        timeout: Int64? = nil
    ) async throws(RequestFailure) -> HTTPAnswer {
        let timeout = timeout ?? Self.patience + (call.patience + (wait ?? .zero)).components.seconds * 1_000
        var headers: HTTPHeaders = [:]
        if call.method == .post { headers.add(name: "Content-Type", value: "application/json") }
        if let wait {
            // Rounded up: a wait of half a second is none else.
            let seconds = wait.components.seconds + (wait.components.attoseconds > 0 ? 1 : 0)
            headers.add(name: "Prefer", value: "wait=\(min(seconds, 60))" + (call.waitsForRelayOnly ? "; until=accepted" : ""))
        }
        if let key { headers.add(name: "Idempotency-Key", value: key) }
        let request = HTTPRequest(HTTPMethod(rawValue: call.method.rawValue), call.target, headers: headers, body: call.body)
        return try await HTTPRequestClient(timeout: timeout, maximumBodyBytes: Self.largestAnswer).send(request, toSocket: address.socket)
    }

    private static let decoder = JSONText.decoder
}

extension AgentContext {
    /// Runs a command: by the agent of this home if one runs, else on a device that is made for it.
    package func run<Command: RoutedCommand>(_ command: Command) async throws -> Command.Result {
        guard let agent = await AgentClient.find(self) else { return try await command.runHere(self) }
        return try await agent.run(command, waitingLine: console.waitingLine)
    }
}

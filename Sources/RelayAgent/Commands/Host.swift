// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Publishes an app, and prints each launch that it is asked for, until the process is told to stop.
package struct Host: Sendable {
    package enum Answer: String, Sendable, CaseIterable, Encodable {
        case launched, declined, unsupported
    }

    var schemes: [String]
    var appID: String
    var name: String
    var answer: Answer

    package init(schemes: [String], appID: String, name: String, answer: Answer) {
        self.schemes = schemes.map { $0.lowercased() }
        self.appID = appID
        self.name = name
        self.answer = answer
    }

    package struct Event: AgentResult {
        package enum Kind: String, Encodable, Sendable {
            case hosting, launch
        }

        package struct Caller: Encodable, Sendable {
            package var device: String
            package var name: String
            package var endpoint: String
            package var new: Bool
        }

        package var event: Kind
        package var app: String
        package var schemes: [String]?
        package var uri: String?
        package var fallback: String?
        package var preferred: [String]?
        package var from: Caller?
        package var answer: Answer?

        package func lines(_ style: Style) -> [String] {
            guard let uri, let from, let answer else { return [] }
            return ["\(uri)  from \(style.show(from.name, .strong))\(from.new ? " (new)" : ""): \(answer.rawValue)"]
        }
    }

    /// Returns when it is to stop.
    package func run(_ context: AgentContext) async throws {
        if let scheme = schemes.first(where: { !LaunchURI.isScheme($0) }) {
            throw AgentError("schemeInvalid", "\(scheme) is no URI scheme; give it without a colon, such as https", .usage)
        }
        let stop = StopSignal()
        let (broken, output) = AsyncStream.makeStream(of: (any Error).self, bufferingPolicy: .bufferingOldest(1))
        let app = registration { event in
            do {
                try context.console.print(event)
            } catch {
                output.yield(error)
                throw error
            }
        }
        try await context.withAccount {
            // Before it starts, so that what waits for it finds it.
            $0.host(app, for: Membership.account)
        } _: { session in
            try await withThrowingTaskGroup(of: Bool.self) { group in
                group.addTask {
                    await stop.arrived()
                    return true
                }
                group.addTask {
                    try await watchConnection(session)
                    return false
                }
                group.addTask {
                    // Who cannot say what it was asked for had better not answer.
                    for await error in broken { throw error }
                    return false
                }
                group.addTask {
                    try await session.platform.publish(app, for: session.account)
                    try context.console.print(Event(event: .hosting, app: appID, schemes: schemes))
                    if !context.console.isJSON {
                        context.console.note("hosting \(appID) for \(schemes.joined(separator: ", ")); it ends with Ctrl-C")
                    }
                    return false
                }
                do {
                    while let isOver = try await group.next(), !isOver {}
                    group.cancelAll()
                    await end(session)
                } catch {
                    await end(session)
                    throw error
                }
            }
        }
    }

    /// Nothing else ends the waiting for a relay that is not there.
    private func end(_ session: Session) async { await session.platform.shutdown() }

    /// Says why it cannot be reached.
    private func watchConnection(_ session: Session) async throws {
        var told: ConnectionProblem?
        for await state in session.platform.connectionStates(for: session.account) {
            guard let problem = state.problem else {
                if state.isConnected, told != nil { session.console.note("connected again") }
                if state.isConnected { told = nil }
                continue
            }
            if state.phase == .stopped { throw problem }
            if told != problem { session.console.note("not connected: \(problem.message)") }
            told = problem
        }
    }

    private func registration(_ tell: @escaping @Sendable (Event) throws -> Void) -> RemoteSystemAppRegistration {
        RemoteSystemAppRegistration(
            appID: appID,
            displayName: name,
            launching: Launching(schemes: schemes) { request in
                try tell(
                    Event(
                        event: .launch,
                        app: appID,
                        uri: request.uri.text,
                        fallback: request.fallbackURI?.text,
                        preferred: request.preferredAppIDs.map(DisplayText.sanitized),
                        from: Event.Caller(
                            device: "\(request.caller.systemID)",
                            name: DisplayText.sanitized(request.caller.deviceName),
                            endpoint: "\(request.caller.endpoint)",
                            new: request.caller.isNew
                        ),
                        answer: answer
                    )
                )
                switch answer {
                case .launched: return .launched
                case .declined: return .declined
                case .unsupported: return .unsupported
                }
            },
            services: [PingService.service]
        )
    }
}

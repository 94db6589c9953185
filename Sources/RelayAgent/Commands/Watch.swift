// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// Prints events of the account's devices (added, updated, removed) until SIGINT or SIGTERM.
package struct Watch: Sendable {
    package init() {}

    package struct Event: AgentResult, Codable {
        package enum Kind: String, Codable, Sendable {
            case added, updated, removed, joined, enumerationCompleted, error
        }

        package var event: Kind
        package var device: DeviceResult?
        /// The endpoint that has joined the account.
        package var endpoint: EndpointResult?
        package var code: String?
        package var message: String?
        var now = Date.now

        enum CodingKeys: CodingKey { case event, device, endpoint, code, message }

        package var notes: [String] { [message].compactMap(\.self) }

        package func lines(_ style: Style) -> [String] {
            if let endpoint { return ["\(style.show("+", .attention)) joined: \(endpoint.summary)"] }
            guard let device else { return [] }
            let sign: (String, Style.Emphasis) =
                switch event {
                case .added: ("+", .good)
                case .removed: ("-", .attention)
                default: ("~", .faint)
                }
            var table = Table()
            device.add(to: &table, now: now)
            return table.lines(style).filter { !$0.isEmpty }.map { "\(style.show(sign.0, sign.1)) \($0)" }
        }

        init(_ event: Kind, _ device: DeviceResult? = nil) { (self.event, self.device) = (event, device) }

        init(joined endpoint: EndpointResult) { (event, self.endpoint) = (.joined, endpoint) }

        init(_ event: RemoteSystemEvent) {
            switch event {
            case .added(let system): (self.event, device) = (.added, DeviceResult(system))
            case .updated(let system): (self.event, device) = (.updated, DeviceResult(system))
            case .removed(let system): (self.event, device) = (.removed, DeviceResult(system))
            case .enumerationCompleted: self.event = .enumerationCompleted
            case .error(let error):
                self.event = .error
                code = "\(error.code)"
                message = DisplayText.sanitized(error.message)
            }
        }
    }

    /// Follows the agent while one runs, and goes on by itself when it ends. What was printed once is not printed again.
    package func run(_ context: AgentContext) async throws {
        let seen = WatchedDevices()
        let report: @Sendable (Event) throws -> Void = { event in
            for change in seen.take(event) { try context.console.print(change) }
        }
        // One for both ways: a signal that comes between them counts, too.
        let stop = StopSignal()
        try await stop.ends {
            if let agent = await AgentClient.find(context) {
                try await agent.watch(report)
                try Task.checkCancellation()
                seen.begin()
            }
            try await context.withAccount { try await run(on: $0, report: report) }
        }
    }

    /// - Parameter report: Takes each event, until the task is cancelled.
    func run(on local: LocalDevice, report: @escaping @Sendable (Event) async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await local.failure() }
            group.addTask { try await Self.events(of: local, report: report) }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    /// Reports until the task is cancelled.
    static func events(of local: LocalDevice, report: @escaping @Sendable (Event) async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                // A device that joins publishes no app yet, so the other events do not show it.
                var known: Set<String>?
                for await endpoints in local.platform.endpointChanges(for: local.account) {
                    let results = endpoints.map(EndpointResult.init)
                    for endpoint in results where known.map({ !$0.contains(endpoint.id) }) ?? false {
                        try await report(Event(joined: endpoint))
                    }
                    known = (known ?? []).union(results.map(\.id))
                }
            }
            group.addTask {
                for await event in local.platform.remoteSystems(matching: RemoteSystemFilter.everybody) { try await report(Event(event)) }
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }
}

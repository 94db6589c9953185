// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Measures the round trip time of a message to another device, end to end.
package struct Ping: Sendable {
    var target: String
    /// `nil` means until SIGINT or SIGTERM.
    var count: Int?
    var interval: Duration
    var timeout: Duration

    /// - Parameters:
    ///   - target: A device, or one of its apps: `DEVICE/APP`.
    ///   - count: The number of messages; `nil` for no limit.
    ///   - interval: The time from one message to the next.
    ///   - timeout: The time limit of each message, including connecting.
    package init(target: String, count: Int?, interval: Duration, timeout: Duration) {
        self.target = target
        self.count = count
        self.interval = interval
        self.timeout = timeout
    }

    package struct Event: AgentResult {
        package enum Kind: String, Encodable, Sendable {
            case answer, lost, summary
        }

        package var event: Kind
        package var device: String
        package var deviceName: String
        package var app: String
        package var sequence: Int?
        package var milliseconds: Double?
        package var code: String?
        package var message: String?
        package var sent: Int?
        package var received: Int?
        package var lost: Int?
        package var minimum: Double?
        package var average: Double?
        package var maximum: Double?
        package var deviation: Double?

        init(_ event: Kind, _ app: RemoteSystemApp, of system: RemoteSystem) {
            self.event = event
            device = "\(system.id)"
            deviceName = DisplayText.sanitized(system.displayName)
            self.app = DisplayText.sanitized(app.appID)
        }

        package func lines(_ style: Style) -> [String] {
            let name = style.show(deviceName, .strong)
            let number = sequence.map { "\($0)" } ?? ""
            switch event {
            case .answer: return ["answer from \(name): number \(number), \(Self.text(milliseconds ?? 0)) ms"]
            case .lost: return ["no answer from \(name): number \(number), \(message ?? "")"]
            case .summary: break
            }
            let counts = "\(sent ?? 0) sent, \(received ?? 0) received, \(lost ?? 0) lost"
            guard let minimum, let average, let maximum, let deviation else { return [counts] }
            let times = [minimum, average, maximum, deviation].map(Self.text).joined(separator: "/")
            return [counts, "min/avg/max/stddev \(times) ms"]
        }

        /// With three decimal places.
        private static func text(_ milliseconds: Double) -> String {
            let thousandths = Int64((min(milliseconds, 1e12) * 1_000).rounded())
            let places = "\(thousandths % 1_000)"
            return "\(thousandths / 1_000)." + String(repeating: "0", count: 3 - places.count) + places
        }
    }

    package func run(_ context: AgentContext) async throws {
        try await context.untilStopped { try await run(on: $0, report: context.console.print) }
    }

    /// - Parameter report: Takes each answer, and a summary at the end or after a cancellation.
    /// - Throws: The last error, if no message had an answer.
    func run(on local: LocalDevice, report: @Sendable (Event) async throws -> Void) async throws {
        try await local.waitForDevices()
        let (system, app) = try await local.app(offering: PingService.name, on: target, takesAny: true)
        // Presence is known at once, so this needs no wait.
        if app.presence.state == .unavailable {
            throw AgentError(
                "remoteSystemUnavailable",
                "\(PresenceText.notConnected(DisplayText.sanitized(system.displayName), app.presence)), and a ping does not wait",
                .unreachable
            )
        }
        var line = Line(local: local, app: app)
        defer { line.close() }
        var times = TransitTimes()
        var failure: AgentError?
        let clock = ContinuousClock()
        while !Task.isCancelled, times.sent < count ?? .max {
            let next = clock.now + interval
            var event: Event
            do {
                let time = try await line.transitTime(timeout)
                times.add(time)
                event = Event(.answer, app, of: system)
                event.milliseconds = time
            } catch {
                // The user stopped the ping, so this message does not count.
                if Task.isCancelled { break }
                let error = AgentError(error)
                times.addLost()
                failure = error
                event = Event(.lost, app, of: system)
                event.code = error.code
                event.message = error.message
            }
            event.sequence = times.sent
            try await report(event)
            // Waiting does not resolve these errors.
            if let status = failure?.status, times.received == 0, [.declined, .notFound, .notSignedIn].contains(status) { break }
            if times.sent < count ?? .max { try? await clock.sleep(until: next) }
        }
        var summary = Event(.summary, app, of: system)
        times.fill(&summary)
        try await report(summary)
        if times.received == 0 { throw failure ?? AgentError("cancelled", "it was interrupted before there was an answer", .failed) }
    }

    /// The connection for the messages. It reconnects when the connection is lost.
    private struct Line {
        let local: LocalDevice
        let app: RemoteSystemApp
        private var connection: AppServiceConnection?

        init(local: LocalDevice, app: RemoteSystemApp) {
            self.local = local
            self.app = app
        }

        /// - Returns: Milliseconds.
        mutating func transitTime(_ timeout: Duration) async throws -> Double {
            let clock = ContinuousClock()
            let end = clock.now + timeout
            do {
                let connection =
                    if let connection { connection } else { try await local.open(PingService.name, of: app, timeout: timeout) }
                self.connection = connection
                let start = clock.now
                _ = try await connection.send([:], timeout: max(.zero, start.duration(to: end)))
                return (clock.now - start) / .milliseconds(1)
            } catch {
                close()
                throw error
            }
        }

        mutating func close() {
            connection?.close()
            connection = nil
        }
    }
}

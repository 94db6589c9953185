// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import ProgramTexts
package import RelayProtocol

/// Diagnoses the path to the relay and to a device, hop by hop, and gives advice.
package struct Doctor: RoutedCommand {
    var target: String?

    /// - Parameter target: A device, or one of its apps, to connect to; `nil` for none.
    package init(target: String?) { self.target = target }

    package struct Check: Codable, Sendable {
        package typealias Status = CheckStatus

        package enum Name: String, Codable, Sendable, CaseIterable {
            case account, relay, identity, clock, login, presence, tunnel, mailbox, links, device, nearby
            // The local network between this device and another one.
            case network, multicast, outgoing, incoming, clocks
        }

        package var name: Name
        package var status: Status
        package var message: String
        /// The remedy.
        package var advice: String?
        /// The code of the failure, as other commands print it.
        package var code: String?
        /// The URL of the relay's node that serves the account, of several.
        package var node: String?
        var exit = ExitStatus.done

        enum CodingKeys: CodingKey { case name, status, message, advice, code, node }

        init(_ name: Name, _ status: Status, _ message: String, advice: String? = nil) {
            self.name = name
            self.status = status
            self.message = message
            self.advice = advice
        }

        init(_ name: Name, failed error: any Error, advice: String? = nil) {
            let failure = AgentError(error)
            self.init(name, .failed, failure.message, advice: advice)
            code = failure.code
            exit = failure.status
        }
    }

    package struct Result: AgentResult, Codable {
        package var checks: [Check]
        /// The exit code of the first failure.
        package var exit: Int32

        init(_ checks: [Check]) {
            self.checks = checks
            exit = (checks.first { $0.status == .failed }?.exit ?? .done).rawValue
        }

        package func lines(_ style: Style) -> [String] {
            checks.flatMap { check -> [String] in
                let emphasis: Style.Emphasis =
                    switch check.status {
                    case .ok: .good
                    case .warning, .failed: .attention
                    case .skipped: .faint
                    }
                let lines = check.status.lines(
                    name: check.name.rawValue,
                    width: 9,
                    message: check.message,
                    advice: check.advice,
                    translated: style.translation.text
                ) { style.emphasised($0, emphasis) }
                return lines.map(style.translated)
            }
        }
    }

    package func request() -> APIRequest {
        var request = APIRequest(.get, "doctor", query: target.map { [("device", $0)] } ?? [])
        request.patience = .seconds(120)
        return request
    }

    /// Runs all checks on the device of the agent. It never throws: failures are part of the result.
    package func run(on local: LocalDevice) async -> Result {
        await checks(local.home, local.accountName) { try await $0(local) }
    }

    /// Runs all checks on a device that is made for them. It never throws: failures are part of the result.
    package func runHere(_ context: AgentContext) async -> Result {
        await checks(context.home, (try? context.storedEndpoint())?.accountName) { body in
            try await context.withAccount { try await body($0) }
        }
    }

    /// - Parameter withDevice: Runs a closure with the device.
    private func checks(
        _ home: Home,
        _ accountName: String?,
        withDevice: (@Sendable (LocalDevice) async throws -> [Check]) async throws -> [Check]
    ) async -> Result {
        let membership: Membership
        do {
            membership = try home.membership()
        } catch {
            return Result([Check(.account, failed: error)])
        }
        let place = AccountText.place(accountName, at: membership.relay)
        var checks = [
            membership.hasRelay
                ? Check(.account, .ok, "this device is '\(membership.name)' of \(place)")
                : Check(.account, .ok, "this device is '\(membership.name)', and knows only those that it was paired with")
        ]
        if membership.hasRelay { checks += await relayChecks(membership) }
        let isRelayThere = membership.hasRelay && !checks.contains { $0.status == .failed && $0.name != .tunnel }
        do {
            checks += try await withDevice { local in
                let others = isRelayThere ? await LocalDeviceChecks(local: local, target: target).run() : []
                let nearby = await NearbyCheck(local: local).run()
                guard let nearby, let target else { return others + [nearby].compactMap(\.self) }
                return others + [nearby] + (await NetworkChecks(local: local, target: target).run())
            }
        } catch {
            checks.append(Check(.login, failed: error))
        }
        return Result(checks)
    }

    private func relayChecks(_ membership: Membership) async -> [Check] {
        do throws(ConnectionError) {
            guard let url = URL(exactly: membership.relay) else { throw ConnectionError(.notARelay, "the relay's URL is not valid") }
            let probe = try RelayProbe(
                url,
                relayID: membership.relayID,
                allowsPlainHTTP: membership.allowsPlainHTTP,
                authorities: membership.authorities
            )
            return await RelayChecks(probe: probe, membership: membership).run()
        } catch {
            return [Check(.relay, failed: error)]
        }
    }
}

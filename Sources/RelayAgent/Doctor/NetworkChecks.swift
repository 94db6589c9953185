// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Finds out, together with another device, which hop fails between the two on the local network. None is a failure of the command: the way
/// through the relay remains.
struct NetworkChecks: Sendable {
    let local: LocalDevice
    let target: String

    /// - Returns: No checks if the device is none of the account, cannot be found, or does not run: other checks say so.
    func run() async -> [Doctor.Check] {
        // Without the relay, the stored devices are known in a moment.
        if !local.platform.isEnumerated(local.account) { try? await local.waitForDevices() }
        guard let (system, app) = try? await local.app(offering: PingService.name, on: target, takesAny: true),
            system.authorizationKind == .sameUser, !app.isNew
        else { return [] }
        // What the relay knows to be away is not waited for.
        let isThere = app.presence.state == .available || app.presence.state == .discoveringAvailability
        let name = DisplayText.quoted(system.displayName)
        guard isThere || !local.platform.isEnumerated(local.account) else {
            return [await absence(of: app.endpoint, name)].compactMap(\.self)
        }
        do throws(AppServiceError) {
            switch try await local.platform.examineNetwork(to: app.endpoint, for: local.account) {
            case nil: return []
            case .tooOld:
                return [
                    Doctor.Check(
                        .network,
                        .skipped,
                        "\(name) runs an older version, which does not help to test the network between the devices",
                        advice: "update Device Relay there"
                    )
                ]
            case .switchedOff:
                return [
                    Doctor.Check(
                        .network,
                        .warning,
                        "\(name) does not use the local network, so only the relay leads to it",
                        advice: "there, delete `nearby` from relay.json, unset DEVICE_RELAY_NEARBY, and restart the agent"
                    )
                ]
            case .observed(let seen, let network, let port):
                let text = NetworkText(name: name, network: network.map { "\($0)" }, port: port)
                return text.checks(of: NetworkDiagnosis(seen))
            }
        } catch {
            if let absence = await absence(of: app.endpoint, name) { return [absence] }
            let failure = AgentError(error)
            return [
                Doctor.Check(
                    .network,
                    .skipped,
                    "\(name) cannot be asked about the network between the devices: \(failure.message)",
                    advice: "see that its agent runs, with `relay doctor` there"
                )
            ]
        }
    }

    /// What is said of a device that no path leads to; `nil` if it is seen on this network, or that cannot be known.
    private func absence(of endpoint: EndpointID, _ name: String) async -> Doctor.Check? {
        guard let view = await local.platform.nearbyView(for: local.account), view.knowsPeers, view.isOpen, view.hearsItself ?? true,
            !view.known.contains(endpoint), view.otherHours[endpoint] == nil
        else { return nil }
        let names = view.interfaces.map(DisplayText.sanitized).joined(separator: ", ")
        return Doctor.Check(
            .network,
            .skipped,
            "\(name) is not seen on \(names) either",
            advice: "if it should be on this network, switch it on, connect it, and see that its agent runs"
        )
    }
}

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
        guard isThere || !local.platform.isEnumerated(local.account) else { return [] }
        let name = DisplayText.quoted(system.displayName)
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
}

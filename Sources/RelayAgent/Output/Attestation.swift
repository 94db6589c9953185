// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
package import Foundation
import RelayProtocol

/// Who attests the outcome of a launch, as it is printed.
package struct Attestation: Codable, Sendable {
    /// `target` or `relay`.
    package var by: String
    /// The target's device id.
    package var device: String?
    package var deviceName: String?
    package var endpoint: String?
    /// The time at which the target signed its receipt.
    package var time: Date?

    init(_ attestation: OutcomeAttestation, in endpoints: [DeviceDirectory.Endpoint]) {
        by = attestation.attestedBy.rawValue
        guard attestation.attestedBy == .target else { return }
        let known = endpoints.first { $0.id == attestation.target }
        device = known.map { "\($0.systemID)" }
        deviceName = known.map { DisplayText.sanitized($0.record.name) }
        endpoint = "\(attestation.target)"
        time = attestation.signedAt
    }

    /// Such as `signed by Desk (endpoint t3vfq2bh) at 2026-11-24 17:40:03 +01:00`.
    var description: String {
        guard let endpoint else { return "says the relay, without a signature of the device" }
        let signer = deviceName.map { "\($0) (endpoint \(endpoint.prefix(8)))" } ?? "endpoint \(endpoint.prefix(8))"
        return time.map { "signed by \(signer) at \(LocalTime.text($0))" } ?? "signed by \(signer)"
    }

    /// A short form for a table.
    var label: String { endpoint.map { deviceName ?? String($0.prefix(8)) } ?? "the relay" }
}

extension LocalDevice {
    /// Who attests an outcome, with the names of this device's directory.
    func attested(_ attestation: OutcomeAttestation) -> Attestation { Attestation(attestation, in: endpoints) }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

@testable import DeviceRelay

extension SealedCommand {
    /// A launch on the app `player` of an endpoint.
    static func launch(_ uri: String, _ number: UInt64, by sender: Member, on target: Signed<EndpointRecord>) throws -> SealedCommand {
        var random = SystemRandomNumberGenerator()
        var ids = CommandIDGenerator()
        let created = PlatformClock.system.wall()
        let key = target.payload.agreementKey
        let header = CommandHeader(
            id: ids.next(now: UInt64(created) + number, using: &random),
            account: "account",
            relay: RelayID(P256SigningKey.sampleRelay.publicKey),
            sender: sender.id,
            target: target.payload.endpointID,
            senderApp: nil,
            targetApp: "player",
            keyID: key.keyID,
            kind: .launch,
            number: number,
            created: created,
            expires: created + 3_600_000
        )
        return try SealedCommand(.launch(.init(uri: try LaunchURI(uri))), header: header, target: key, key: sender.key)
    }
}

extension EndpointMessage.CommandResult {
    /// The outcome of a result without a reply, whose receipt is verified.
    func outcome(of command: SealedCommand, by target: Signed<EndpointRecord>) throws -> CommandOutcome {
        try Signed<CommandReceipt>(verifying: receipt.bytes, for: command.descriptor, from: target.payload, reply: nil).payload.outcome
    }
}

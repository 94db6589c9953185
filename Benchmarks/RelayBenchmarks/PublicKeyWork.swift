// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation
import RelayProtocol

/// The public-key operations of a launch: sealing and signing, verifying and opening, signing the receipt and verifying
/// it. Nothing is sent or stored, so this is the lower bound of a launch's cost.
struct PublicKeyWork: AsyncParsableCommand {
    @Option(help: "Launches at once, each on a core.") var cores = 2
    @Option var seconds = 3.0

    func run() async throws {
        let count = try await withThrowingTaskGroup(of: Int.self) { [seconds] group in
            for _ in 0..<cores { group.addTask { try Self.launches(for: seconds) } }
            return try await group.reduce(0, +)
        }
        report(["perSecond": Double(count) / seconds])
    }

    private static func launches(for seconds: Double) throws -> Int {
        let (sender, target) = (try Party("Sender"), try Party("Target"))
        let relay = RelayID(P256SigningKey().publicKey)
        let recipient = SealedCommand.Recipient(account: Party.account, relay: relay, endpoint: target.id)
        let body = CommandBody.launch(.init(uri: try LaunchURI("https://www.example.org/film")))
        var ids = CommandIDGenerator()
        var random = SystemRandomNumberGenerator()
        var count = 0
        let end = ContinuousClock.now + .seconds(seconds)
        while ContinuousClock.now < end {
            count += 1
            let now = Int64(Date().timeIntervalSince1970 * 1_000)
            let header = CommandHeader(
                id: ids.next(now: UInt64(now), using: &random),
                account: Party.account,
                relay: relay,
                sender: sender.id,
                target: target.id,
                senderApp: nil,
                targetApp: benchmarkApp,
                keyID: target.agreement.publicKey.keyID,
                kind: .launch,
                number: UInt64(count),
                created: now,
                expires: now + 300_000
            )
            let sealed = try SealedCommand(body, header: header, target: target.agreement.publicKey, key: sender.identity)
            let received = try SealedCommand(decoding: sealed.encoded)
            try received.verify(for: recipient, from: sender.record, now: now)
            _ = try received.open(with: [target.agreement])
            let receipt = CommandReceipt(for: received.descriptor, outcome: .succeeded, time: now)
            let signed = try Signed(receipt, key: target.identity).encoded
            let final = CommandFinal(receipt: signed, reply: nil, of: sealed.descriptor, from: target.record)
            guard final?.attestedBy == .target else { fail("a receipt does not hold") }
        }
        return count
    }

    private struct Party {
        static let account = "account"

        let identity = P256SigningKey()
        let agreement = P256AgreementKey()
        let record: EndpointRecord
        var id: EndpointID { record.endpointID }

        init(_ name: String) throws {
            record = try EndpointRecord(
                version: 1,
                account: Self.account,
                identityKey: identity.publicKey,
                systemKey: P256SigningKey(),
                agreementKey: agreement.publicKey,
                name: name,
                kind: "desktop",
                platform: "linux"
            )
        }
    }
}

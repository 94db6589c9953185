// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// An endpoint's keys, and its hellos: right ones, and ones that are wrong in one place.
struct TransportTestEndpoint {
    let identityKey = P256SigningKey()
    let systemKey = P256SigningKey()
    let agreementKey = P256AgreementKey()
    let instance = Blob<BlobKinds.Instance>.random()

    var id: EndpointID { EndpointID(identityKey.publicKey) }

    /// Signed once for an account: a version has one content.
    private let records = Mutexed<[String: Signed<EndpointRecord>]>([:])

    func record(account: String = "account-1") throws -> Signed<EndpointRecord> {
        if let known = records.value.withLock({ $0[account] }) { return known }
        let new = try makeRecord(account: account)
        records.value.withLock { $0[account] = new }
        return new
    }

    private func makeRecord(account: String) throws -> Signed<EndpointRecord> {
        try Signed(
            try EndpointRecord(
                version: 1,
                account: account,
                identityKey: identityKey.publicKey,
                systemKey: systemKey,
                agreementKey: agreementKey.publicKey,
                name: "Living room",
                kind: "desktop",
                platform: "linux"
            ),
            key: identityKey
        )
    }

    func hello(
        nonce: [UInt8],
        relay: RelayID,
        origin: String,
        token: String = FixedTokens.good,
        version: Int = 1,
        role: EndpointMessage.Hello.Role = .host,
        account: String = "account-1",
        signer: P256SigningKey? = nil,
        signedToken: String? = nil,
        signedOrigin: String? = nil,
        damagingRecord: Bool = false
    ) throws -> EndpointMessage {
        let record = try record(account: account)
        let statement = HelloStatement(
            relay: relay,
            origin: signedOrigin ?? origin,
            nonce: nonce,
            token: signedToken ?? token,
            record: record.encoded
        )
        var bytes = record.encoded
        if damagingRecord { bytes[bytes.count - 1] ^= 1 }
        return .hello(
            EndpointMessage.Hello(
                version: version,
                token: Secret(token),
                record: Blob(bytes),
                origin: origin,
                signature: Blob(try statement.sign(with: signer ?? identityKey)),
                role: role,
                instance: instance,
                features: []
            )
        )
    }
}

/// A lock that values can share.
private final class Mutexed<Value: Sendable>: Sendable {
    let value: Mutex<Value>
    init(_ value: Value) { self.value = Mutex(value) }
}

extension Blob<BlobKinds.Instance> {
    static func random() -> Self { Blob((0..<16).map { _ in .random(in: 0...255) }) }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What an endpoint says of itself, signed by its identity key.
package struct EndpointRecord: SignedPayload {
    package static let purpose = Purpose.endpointRecord

    /// Grows with every change.
    package var version: UInt64
    package var account: String
    package let identityKey: SigningPublicKey
    package let systemKey: SigningPublicKey
    /// The system key's signature over account and endpoint id: nothing can join a device it is not part of.
    package let systemSignature: [UInt8]
    /// What commands for this endpoint are sealed with.
    package var agreementKey: AgreementPublicKey
    /// The device's name, as its person gave it.
    package var name: String
    /// Such as `desktop` or `phone`; for display only.
    package var kind: String
    /// Such as `linux` or `ios`.
    package var platform: String
    package var manufacturer: String?
    package var model: String?
    /// Proves an invitation by another endpoint of the account.
    package var invitationProof: [UInt8]?

    /// A record whose membership the system key signs.
    package init(
        version: UInt64,
        account: String,
        identityKey: SigningPublicKey,
        systemKey: some SystemKey,
        agreementKey: AgreementPublicKey,
        name: String,
        kind: String,
        platform: String,
        manufacturer: String? = nil,
        model: String? = nil,
        invitationProof: [UInt8]? = nil
    ) throws {
        self.version = version
        self.account = account
        self.identityKey = identityKey
        self.systemKey = systemKey.publicKey
        self.systemSignature = try systemKey.sign(
            Self.membership(account: account, endpoint: EndpointID(identityKey)),
            for: .systemMembership
        )
        self.agreementKey = agreementKey
        self.name = name
        self.kind = kind
        self.platform = platform
        self.manufacturer = manufacturer
        self.model = model
        self.invitationProof = invitationProof
    }

    package var endpointID: EndpointID { EndpointID(identityKey) }
    package var systemID: SystemID { SystemID(systemKey) }

    package func validate(limits: Limits) throws(RecordError) {
        try limits.checkVersion(version)
        try limits.checkIdentifier(account, field: "account")
        try limits.checkDisplayName(name, field: "name")
        try limits.checkIdentifier(kind, field: "kind")
        try limits.checkIdentifier(platform, field: "platform")
        try limits.checkDisplayName(manufacturer ?? "", field: "manufacturer", mayBeEmpty: true)
        try limits.checkDisplayName(model ?? "", field: "model", mayBeEmpty: true)
        guard invitationProof.map({ $0.count == 32 }) ?? true else { throw .invalidField("invitationProof") }
        let membership = Self.membership(account: account, endpoint: endpointID)
        guard systemKey.isValid(systemSignature, over: membership, for: .systemMembership) else { throw .notPartOfSystem }
    }

    /// What the system key signs. An account id holds no zero byte.
    private static func membership(account: String, endpoint: EndpointID) -> [UInt8] {
        Array(account.utf8) + [0] + endpoint.digest.bytes
    }
}

extension Signed<EndpointRecord> {
    /// Reads a record that an endpoint signed for itself.
    package init(verifying encoded: [UInt8], limits: Limits = Limits()) throws(RecordError) {
        try self.init(verifying: encoded, limits: limits) { (record) throws(RecordError) in record.identityKey }
    }
}

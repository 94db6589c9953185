// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The description of an endpoint, signed by its identity key.
package struct EndpointRecord: SignedPayload {
    package static let purpose = Purpose.endpointRecord

    /// Grows with every change.
    package var version: UInt64
    package var account: String
    package let identityKey: SigningPublicKey
    package let systemKey: SigningPublicKey
    /// The system key's signature over account and endpoint id. Without the system key, an endpoint cannot claim to belong to a device.
    package let systemSignature: [UInt8]
    /// The key that commands for this endpoint are sealed for.
    package var agreementKey: AgreementPublicKey
    /// The key for direct paths; without it the endpoint has none.
    package var linkKey: AgreementPublicKey?
    /// The device's name, chosen by its user.
    package var name: String
    /// Such as `desktop` or `phone`; for display only.
    package var kind: String
    /// Such as `linux` or `ios`.
    package var platform: String
    package var manufacturer: String?
    package var model: String?
    /// The proof of an invitation by another endpoint of the account.
    package var invitationProof: [UInt8]?

    /// Creates a record. The system key signs the membership in the device.
    package init(
        version: UInt64,
        account: String,
        identityKey: SigningPublicKey,
        systemKey: some SystemKey,
        agreementKey: AgreementPublicKey,
        linkKey: AgreementPublicKey? = nil,
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
        self.linkKey = linkKey
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

    /// The bytes that the system key signs. An account id contains no zero byte.
    private static func membership(account: String, endpoint: EndpointID) -> [UInt8] {
        Array(account.utf8) + [0] + endpoint.digest.bytes
    }
}

extension Signed<EndpointRecord> {
    /// Decodes a record and checks that its endpoint signed it.
    package init(verifying encoded: [UInt8], limits: Limits = Limits()) throws(RecordError) {
        try self.init(verifying: encoded, limits: limits) { (record) throws(RecordError) in record.identityKey }
    }
}

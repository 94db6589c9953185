// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A statement by a known endpoint that a new endpoint belongs to the account, signed by the identity key of the known
/// one. The relay checks the giver's signature and the account; each endpoint checks the voucher itself. It holds for the named record and for later records of the same endpoint
/// on the same device.
package struct Voucher: SignedPayload {
    package static let purpose = Purpose.voucher

    package let account: String
    /// The endpoint that vouches.
    package let voucher: EndpointID
    /// The endpoint that is vouched for.
    package let endpoint: EndpointID
    /// The device of that endpoint.
    package let system: SystemID
    /// The version of the examined record.
    package let recordVersion: UInt64
    /// The digest of the examined record.
    package let record: Digest256
    /// How the signer knows the endpoint.
    package let knowledge: VerificationLevel
    /// Milliseconds since 1970, in relay time.
    package let time: Int64

    /// How an endpoint knows another one. In a chain of vouchers the weakest kind counts.
    package enum VerificationLevel: String, Codable, Comparable, Sendable {
        /// By the proof of an invitation, or because users compared the ids.
        case verified
        /// It was listed when the signer joined; no user has compared the ids.
        case firstSeen

        /// The weaker kind is smaller.
        package static func < (left: VerificationLevel, right: VerificationLevel) -> Bool { left == .firstSeen && right == .verified }
    }

    package init(by voucher: EndpointID, for record: Signed<EndpointRecord>, knowledge: VerificationLevel = .verified, time: Int64) {
        self.account = record.payload.account
        self.voucher = voucher
        self.endpoint = record.payload.endpointID
        self.system = record.payload.systemID
        self.recordVersion = record.payload.version
        self.record = Digest256(hashing: record.encoded)
        self.knowledge = knowledge
        self.time = time
    }

    package func validate(limits: Limits) throws(RecordError) {
        try limits.checkVersion(recordVersion)
        try limits.checkIdentifier(account, field: "account")
        guard voucher != endpoint else { throw .invalidField("voucher") }
    }
}

extension Signed<Voucher> {
    /// Decodes a voucher of a known endpoint for the newest record of a new one.
    /// - Throws: `outdated` if the record is older than the examined one.
    package init(
        verifying encoded: [UInt8],
        by voucher: EndpointRecord,
        for record: Signed<EndpointRecord>
    ) throws(RecordError) {
        try self.init(verifying: encoded) { (_) throws(RecordError) in voucher.identityKey }
        let (offered, vouched) = (record.payload.version, payload.recordVersion)
        guard payload.voucher == voucher.endpointID, payload.endpoint == record.payload.endpointID else { throw .wrongEndpoint }
        guard payload.account == voucher.account, payload.account == record.payload.account else { throw .wrongAccount }
        guard payload.system == record.payload.systemID else { throw .notPartOfSystem }
        guard offered >= vouched else { throw .outdated(known: vouched, offered: offered) }
        guard offered > vouched || payload.record == Digest256(hashing: record.encoded) else { throw .versionReused(offered) }
    }
}

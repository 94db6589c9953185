// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

@testable import DeviceRelay

/// An endpoint of an account, with its keys, its signed statements and the relay's messages about it.
struct Member {
    let account: String
    let key: P256SigningKey
    let systemKey: P256SigningKey
    let record: Signed<EndpointRecord>

    var id: EndpointID { record.payload.endpointID }

    init(
        _ name: String,
        account: String = "account",
        version: UInt64 = 1,
        key: P256SigningKey = P256SigningKey(),
        systemKey: P256SigningKey = P256SigningKey(),
        invitation: Secret<[UInt8]>? = nil,
        linkKey: P256LinkKey? = nil
    ) throws {
        self.account = account
        self.key = key
        self.systemKey = systemKey
        let id = EndpointID(key.publicKey)
        record = try Signed(
            EndpointRecord(
                version: version,
                account: account,
                identityKey: key.publicKey,
                systemKey: systemKey,
                agreementKey: P256AgreementKey().publicKey,
                linkKey: linkKey?.publicKey,
                name: name,
                kind: "phone",
                platform: "linux",
                invitationProof: invitation.map { InvitationProof.make(secret: $0.exposed, endpoint: id) }
            ),
            key: key
        )
    }

    func voucher(for other: Member, _ knowledge: Voucher.VerificationLevel = .verified) throws -> Blob<BlobKinds.Voucher> {
        Blob(try Signed(Voucher(by: id, for: other.record, knowledge: knowledge, time: 1), key: key).encoded)
    }

    func revocation(of endpoint: EndpointID, account: String? = nil) throws -> Signed<Revocation> {
        try Signed(Revocation(of: endpoint, by: id, account: account ?? self.account, time: 1), key: key)
    }

    func registration(of app: String, version: UInt64 = 1) throws -> [UInt8] {
        let registration = AppRegistration(
            version: version,
            account: account,
            endpoint: id,
            appID: app,
            displayName: app,
            schemes: [.init(name: "https")],
            services: []
        )
        return try Signed(registration, key: key).encoded
    }

    func introduction(_ vouchers: [Blob<BlobKinds.Voucher>] = []) -> Introduction {
        Introduction(record: Blob(record.encoded), vouchers: vouchers)
    }

    func added(
        _ vouchers: [Blob<BlobKinds.Voucher>] = [],
        registrations: [[UInt8]] = [],
        joining: Joining? = nil
    ) -> RelayMessage.EndpointAdded {
        .init(
            endpoint: id,
            introduction: introduction(vouchers),
            registrations: registrations.map { Blob($0) },
            presence: Presence(.available, .connected),
            joining: joining
        )
    }
}

extension PeerBook {
    /// The book of an endpoint with nothing in it.
    init(
        of own: Member,
        pins: [(Member, Voucher.VerificationLevel)] = [],
        registrations: [[UInt8]] = [],
        approved: [Approved] = [],
        revoked: Set<EndpointID> = [],
        inviter: Member? = nil,
        hasEnumerated: Bool = true,
        hasNewAccount: Bool = false,
        limits: Limits = Limits()
    ) {
        self.init(
            own: own.id,
            directoryName: "me",
            account: own.account,
            pins: pins.map { Pin(endpoint: $0.0.id, record: $0.0.record.encoded, knowledge: $0.1, registrations: registrations) },
            approved: approved,
            revoked: revoked,
            inviter: inviter?.id,
            hasEnumerated: hasEnumerated,
            hasNewAccount: hasNewAccount,
            limits: limits
        )
    }

    /// Whether a device is shown as known.
    func isKnown(_ member: Member) -> Bool {
        guard let endpoint = directory[member.id] else { return false }
        return endpoint.trust != .new && isConfirmed(member.id)
    }

    func isVerified(_ member: Member) -> Bool { directory[member.id]?.isVerified ?? false }

    /// The relay reports that an endpoint is revoked.
    mutating func revoked(_ member: Member, _ revocation: Signed<Revocation>? = nil) -> [Action] {
        take(.removed(.init(endpoint: member.id, isRevoked: true, revocation: revocation.map { Blob($0.encoded) })))
    }
}

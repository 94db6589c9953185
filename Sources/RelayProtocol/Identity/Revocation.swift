// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A signed statement that an endpoint is permanently removed from the account. The identity key of the revoking endpoint
/// signs it. The relay stores it and sends it to all endpoints of the account, and each of them checks it.
package struct Revocation: SignedPayload {
    package static let purpose = Purpose.revocation

    package let account: String
    /// The endpoint that revokes and signs.
    package let revoker: EndpointID
    /// The revoked endpoint. An endpoint may revoke itself.
    package let endpoint: EndpointID
    /// Milliseconds since 1970, in relay time.
    package let time: Int64

    package init(of endpoint: EndpointID, by revoker: EndpointID, account: String, time: Int64) {
        self.account = account
        self.revoker = revoker
        self.endpoint = endpoint
        self.time = time
    }

    package func validate(limits: Limits) throws(RecordError) {
        try limits.checkIdentifier(account, field: "account")
    }
}

extension Signed<Revocation> {
    /// Decodes a revocation and checks that the given endpoint of the account signed it.
    package init(
        verifying encoded: [UInt8],
        by revoker: EndpointID,
        key: SigningPublicKey,
        account: String
    ) throws(RecordError) {
        try self.init(verifying: encoded) { (_) throws(RecordError) in key }
        guard payload.revoker == revoker else { throw .wrongEndpoint }
        guard payload.account == account else { throw .wrongAccount }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A statement that an endpoint never belongs to the account again, signed by the identity key of the endpoint that revokes it. The relay
/// stores it and sends it to all endpoints of the account; each of them checks it.
package struct Revocation: SignedPayload {
    package static let purpose = Purpose.revocation

    package let account: String
    /// The endpoint that revokes, and signs.
    package let revoker: EndpointID
    /// The endpoint that is revoked. An endpoint may revoke itself.
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
    /// Reads a revocation that must be signed by a certain endpoint of an account.
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

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// An endpoint's record and what others say of it: whatever introduces a peer carries this.
package struct Introduction: JSONObjectCodable, Hashable, Sendable {
    package var record: Blob<BlobKinds.EndpointRecord>
    package var vouchers: [Blob<BlobKinds.Voucher>]

    package init(record: Blob<BlobKinds.EndpointRecord>, vouchers: [Blob<BlobKinds.Voucher>] = []) {
        self.record = record
        self.vouchers = vouchers
    }

    package init(json: JSONValue) throws(JSONError) {
        self.record = try json.member("record")
        self.vouchers = try json.optional("vouchers") ?? []
        // Each of the account's endpoints can vouch once.
        try json.limits.check(.endpointsPerAccount, vouchers.count, as: JSONError.tooLarge)
    }

    package func writeMembers(to json: inout JSONWriter) {
        json.member("record", record)
        json.member("vouchers", vouchers)
    }
}

/// How an endpoint came into its account. The relay's word: for people who decide whether to approve it, never a proof.
package struct Joining: JSONObjectCodable, Hashable, Sendable {
    /// When the relay first saw it, in milliseconds since 1970.
    package var time: Milliseconds
    /// The endpoint whose invitation it joined by; absent for an invitation of the operator, or a sign-in.
    package var invitedBy: EndpointID?
    /// The network address that it came from then: an IPv4 or IPv6 address.
    package var address: String?

    package init(time: Milliseconds, invitedBy: EndpointID? = nil, address: String? = nil) {
        self.time = time
        self.invitedBy = invitedBy
        self.address = address
    }

    package init(json: JSONValue) throws(JSONError) {
        self.time = try json.member("time")
        self.invitedBy = try json.optional("invitedBy")
        self.address = try json.optional("address")
        guard address.map(Self.isAddress) ?? true else { throw json.invalid("address") }
    }

    package func writeMembers(to json: inout JSONWriter) {
        json.member("time", time)
        json.member("invitedBy", invitedBy)
        json.member("address", address)
    }

    /// The characters of an IP address, at most as many as one with a zone has.
    private static func isAddress(_ text: String) -> Bool {
        (2...64).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }
}

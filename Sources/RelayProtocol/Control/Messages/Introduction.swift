// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// An endpoint's record with its vouchers. Every message that introduces a peer contains it.
package struct Introduction: JSONObjectCodable, Hashable, Sendable {
    package var record: Blob<BlobKinds.EndpointRecord>
    package var vouchers: [Blob<BlobKinds.Voucher>]

    /// The most that a relay stores of the vouchers for one endpoint, in bytes. With them an introduction still fits into a control frame
    /// beside a command of the largest size.
    package static let maximumVoucherBytes = 64 << 10

    package init(record: Blob<BlobKinds.EndpointRecord>, vouchers: [Blob<BlobKinds.Voucher>] = []) {
        self.record = record
        self.vouchers = vouchers
    }

    package init(json: JSONValue) throws(JSONError) {
        self.record = try json.member("record")
        self.vouchers = try json.optional("vouchers") ?? []
        // Each endpoint of the account can vouch once.
        try json.limits.check(.endpointsPerAccount, vouchers.count, as: JSONError.tooLarge)
    }

    package func writeMembers(to json: inout JSONWriter) {
        json.member("record", record)
        json.member("vouchers", vouchers)
    }
}

/// How an endpoint joined its account. It is the relay's statement and proves nothing; it helps people to decide whether to approve the
/// endpoint.
package struct Joining: JSONObjectCodable, Codable, Hashable, Sendable {
    /// When the relay first saw it, in milliseconds since 1970.
    package var time: Milliseconds
    /// The endpoint whose invitation it used; absent for an invitation of the operator, or a sign-in.
    package var invitedBy: EndpointID?
    /// The network address of its first connection: an IPv4 or IPv6 address.
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

    /// Whether a text consists of visible ASCII characters, and is not longer than an IP address with a zone.
    private static func isAddress(_ text: String) -> Bool {
        (2...64).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }
}

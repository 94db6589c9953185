// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The constant part of an open control channel. A class, because it is looked up for every message and copies would cost.
final class AccountChannel: Hashable, Sendable {
    let id: ChannelID
    let account: AccountID
    let endpoint: EndpointID
    let identityKey: SigningPublicKey
    /// Of the channel's tokens.
    let identity: Identity
    let role: EndpointMessage.Hello.Role
    let instance: Blob<BlobKinds.Instance>
    /// The digests of the registrations that were stored when the channel opened.
    let verifiedRegistrations: [Digest256]

    init(_ id: ChannelID, _ hello: ProvedHello, in account: AccountID, registrations: [Digest256]) {
        self.id = id
        self.account = account
        endpoint = hello.record.payload.endpointID
        identityKey = hello.record.payload.identityKey
        identity = hello.identity
        role = hello.role
        instance = hello.instance
        verifiedRegistrations = registrations
    }

    /// An id is given once, and a channel with it never changes.
    static func == (left: AccountChannel, right: AccountChannel) -> Bool { left.id == right.id }

    func hash(into hasher: inout Hasher) { hasher.combine(id) }
}

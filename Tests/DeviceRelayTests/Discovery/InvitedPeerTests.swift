// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

@Suite struct InvitedPeerTests {
    private let account = "account"
    private let secret = Secret([UInt8](repeating: 7, count: 32))

    /// A newcomer with a valid invitation proof.
    private func newcomer() throws -> RelayMessage.EndpointAdded {
        let key = P256SigningKey()
        let id = EndpointID(key.publicKey)
        let record = try EndpointRecord(
            version: 1,
            account: account,
            identityKey: key.publicKey,
            systemKey: P256SigningKey(),
            agreementKey: P256AgreementKey().publicKey,
            name: "Phone",
            kind: "phone",
            platform: "linux",
            invitationProof: InvitationProof.make(secret: secret.exposed, endpoint: id)
        )
        return RelayMessage.EndpointAdded(
            endpoint: id,
            introduction: Introduction(record: Blob(try Signed(record, key: key).encoded)),
            registrations: [],
            presence: Presence(.available, .connected)
        )
    }

    @Test func invitationProofIsAcceptedOnce() throws {
        var book = PeerBook(
            own: EndpointID(P256SigningKey().publicKey),
            directoryName: "me",
            account: account,
            hasEnumerated: true
        )
        book.setInvitations([secret])
        let (first, second) = (try newcomer(), try newcomer())
        let actions = book.take(.added(first))
        let record = try #require(book.signedRecord(of: first.endpoint))
        #expect(actions.contains(.vouch(record, invitation: secret)))
        #expect(book.isConfirmed(first.endpoint))
        // It was read again before it was deleted.
        book.setInvitations([secret])
        #expect(book.take(.added(second)).isEmpty)
        #expect(!book.isConfirmed(second.endpoint))
    }
}

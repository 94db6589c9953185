// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

/// A caller says that it is an app of an identity. The host asks what the relay lists, which has a proof of it.
@Suite struct CallerIdentityAttackTests {
    @Test func callerIsOfAnIdentityOnlyWhileTheRelayListsItsApp() throws {
        let (own, peer, other) = (try Member("Own"), try Member("Peer"), try Member("Other"))
        var book = PeerBook(of: own, pins: [(peer, .verified), (other, .verified)])
        let registration = AppRegistration(
            version: 1,
            account: peer.account,
            endpoint: peer.id,
            appID: "player",
            displayName: "Player",
            identity: "player.example"
        )
        let signed = Blob<BlobKinds.AppRegistration>(try Signed(registration, key: peer.key).encoded)
        var added = peer.added()
        added.registrations = [signed]
        _ = book.take(.added(added))
        _ = book.take(.added(other.added()))
        let films = RemoteSystemAppRegistration(appID: "films", identity: "player.example")
        func isAllowed(_ appID: String?, at endpoint: EndpointID) -> Bool {
            films.allows(appID, of: book.identity(ofApp: appID, at: endpoint))
        }
        #expect(isAllowed("player", at: peer.id))
        // The name of an app alone proves nothing: not on another device, and not for an app that is not listed.
        #expect(!isAllowed("player", at: other.id))
        for appID in ["films", "Player", "player.example", nil] { #expect(!isAllowed(appID, at: peer.id), "\(appID ?? "none")") }
        // The proof goes: the relay lists the device without the app.
        _ = book.take(.updated(.init(endpoint: peer.id, registrations: [])))
        #expect(!isAllowed("player", at: peer.id))
    }
}

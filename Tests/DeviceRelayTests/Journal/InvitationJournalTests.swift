// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import Testing

@Suite struct InvitationJournalTests {
    let directory: TemporaryDirectory
    let endpoint = EndpointID(P256SigningKey().publicKey)

    init() throws { directory = try TemporaryDirectory() }

    var path: String { "\(directory.path)/journal.sqlite" }

    static func secret(_ byte: UInt8) -> Secret<[UInt8]> { Secret([UInt8](repeating: byte, count: 32)) }

    @Test func openInvitationsAreStoredUntilTheyEnd() async throws {
        let (one, two) = (Self.secret(1), Self.secret(2))
        let journal = try Journal(path: path, endpoint: endpoint)
        try await journal.write {
            try $0.storeInvitation(one, ends: 100)
            try $0.storeInvitation(two, ends: 200)
        }
        let again = try Journal(path: path, endpoint: endpoint)
        #expect(try again.read { try $0.invitations(now: 99) } == [two, one])
        #expect(try again.read { try $0.invitations(now: 100) } == [two])
        try await again.write { try $0.removeInvitations(endedBy: 100) }
        #expect(try again.read { try $0.invitations(now: 0) } == [two])
        try await again.write { try $0.removeInvitation(two) }
        #expect(try again.read { try $0.invitations(now: 0) } == [])
    }

    @Test func openInvitationsAreBounded() async throws {
        let journal = try Journal(path: path, endpoint: endpoint)
        let kept = try await journal.write { transaction in
            for number in UInt8(0)..<70 { try transaction.storeInvitation(Self.secret(number), ends: 1_000 + Int64(number)) }
            return try transaction.invitations(now: 0)
        }
        #expect(kept == (6..<70).reversed().map { Self.secret(UInt8($0)) })
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import Testing

@testable import DeviceRelay

@Suite struct JournalMigrationTests {
    let directory: TemporaryDirectory
    let endpoint = EndpointID(P256SigningKey().publicKey)
    let peer = EndpointID(P256SigningKey().publicKey)

    init() throws { directory = try TemporaryDirectory() }

    var path: String { "\(directory.path)/journal.sqlite" }

    /// As the first schema had it, with one command of each state.
    private func makeOld() throws {
        let old = try DatabaseQueue(path: path)
        try JournalSchema.migrator.migrate(old, upTo: "3 sent commands by state")
        try old.write { database in
            try database.execute(sql: "INSERT INTO meta (id, endpoint) VALUES (1, ?)", arguments: [endpoint.column])
            try database.execute(sql: "INSERT INTO sent_lanes VALUES (?, 'app', ?)", arguments: [peer.column, NumberColumn.encode(7)])
            try database.execute(sql: "INSERT INTO lanes VALUES (?, 'own', ?)", arguments: [peer.column, NumberColumn.encode(3)])
            for (number, columns) in Self.sent.enumerated() {
                try database.execute(
                    sql: """
                        INSERT INTO sent_commands (id, target, app, number, created, expires, digest, size, cancel_requested, signings,
                        state, progress, refusal, may_have_run, outcome, attested_by, receipt)
                        VALUES (?, ?, 'app', ?, 5, 50, zeroblob(32), 3, 0, 1, \(columns))
                        """,
                    arguments: [Self.id(number).column, peer.column, NumberColumn.encode(UInt64(number) + 1)]
                )
                try database.execute(sql: "INSERT INTO sent_blobs VALUES (?, X'01', X'02', X'03')", arguments: [Self.id(number).column])
            }
            for (number, state) in ["'received', NULL", "'handling', NULL", "'answered', 'declined'"].enumerated() {
                try database.execute(
                    sql: """
                        INSERT INTO received_commands (sender, id, app, number, created, expires, digest, size, state, outcome)
                        VALUES (?, ?, 'own', ?, 5, 50, zeroblob(32), 3, \(state))
                        """,
                    arguments: [peer.column, Self.id(number).column, NumberColumn.encode(UInt64(number) + 1)]
                )
            }
            let (first, last) = (Self.id(0).column, Self.id(2).column)
            try database.execute(sql: "INSERT INTO received_blobs VALUES (?, ?, X'04', X'05')", arguments: [peer.column, first])
            try database.execute(sql: "INSERT INTO results VALUES (?, ?, X'06', NULL)", arguments: [peer.column, last])
        }
        try old.close()
    }

    private static let sent = [
        "'prepared', NULL, NULL, NULL, NULL, NULL, NULL", "'sent', NULL, NULL, NULL, NULL, NULL, NULL",
        "'accepted', 'delivered', NULL, NULL, NULL, NULL, NULL", "'withdrawn', NULL, NULL, NULL, NULL, NULL, NULL",
        "'refused', NULL, 'expired', 0, NULL, NULL, NULL", "'final', NULL, NULL, NULL, 'succeeded', 'target', X'07'",
    ]

    private static func id(_ number: Int) -> CommandID {
        guard let id = CommandID(uuid: UUID(uuid: (0, 0, 0, 0, 0, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, UInt8(number)))) else {
            preconditionFailure("a UUID of version 7")
        }
        return id
    }

    @Test func anOldJournalGoesOnWithAllThatIsInIt() async throws {
        try makeOld()
        let journal = try Journal(path: path, endpoint: endpoint)
        let states: [SentCommand.State] = [
            .prepared, .sent, .accepted(.delivered), .withdrawn, .refused(CommandRefusal(.expired, mayHaveRun: false)),
            .final(CommandFinal(outcome: .succeeded, receipt: [7], reply: nil)),
        ]
        let commands = try journal.read { try $0.sentCommands() }
        #expect(commands.map(\.state) == states)
        #expect(commands.map(\.command.id) == (0..<6).map(Self.id))
        #expect(try journal.read { try $0.openCommands() } == Array(commands.prefix(3)))
        for number in 0..<6 {
            #expect(try journal.read { try $0.sentContent(Self.id(number)) } == .init(blob: [1], body: [2], target: [3]))
        }
        let peer = peer
        let (next, unanswered) = try await journal.write { transaction in
            (try transaction.nextNumber(to: peer, appID: "app"), try transaction.unansweredCommands(to: peer, appID: "app"))
        }
        #expect(next == 8)
        #expect(unanswered == [Self.id(0), Self.id(1)])

        let keys = (0..<3).map { CommandKey(sender: peer, id: Self.id($0)) }
        var target = try journal.read { try $0.target() }
        #expect(target.connected() == [.sendResult(keys[2])])
        #expect(try journal.read { try $0.receivedContent(keys[0]) } == .init(blob: [4], record: [5]))
        #expect(try journal.read { try $0.result(keys[2]) } == .init(receipt: [6], reply: nil))

        // What belongs to a command still goes with it.
        try await journal.write { transaction in
            try transaction.forgetSent(Self.id(5))
            try transaction.remove(keys[2])
        }
        #expect(try journal.read { try $0.sentContent(Self.id(5)) } == nil)
        #expect(try journal.read { try $0.result(keys[2]) } == nil)
    }
}

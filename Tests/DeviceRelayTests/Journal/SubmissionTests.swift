// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import RelayStorage
import Testing

@testable import DeviceRelay

/// The keys of submissions and the changes of commands, in one journal.
@Suite struct SubmissionTests {
    private let support: JournalTests
    private let journal: Journal

    init() throws {
        support = try JournalTests()
        journal = try support.journal()
    }

    private func key(_ name: String = "k", of principal: String = "owner", request: String = "{}") -> SubmissionKey {
        SubmissionKey(name, of: principal, request: request.utf8)
    }

    /// Stores a command under a key.
    private func submit(_ number: UInt64, _ key: SubmissionKey, now: Int64? = nil) async throws -> CommandID {
        let template = support.command(number)
        let command = CommandDescriptor(
            id: template.id,
            lane: template.lane,
            number: template.number,
            created: now ?? template.created,
            expires: now.map { $0 + 1_000 } ?? template.expires,
            digest: template.digest,
            size: template.size
        )
        let (row, _) = SentCommand.prepare(command, isConnected: false)
        return try await journal.write { transaction in
            if let earlier = try transaction.submitted(key, now: row.command.created) { return earlier.command.id }
            _ = try transaction.nextNumber(to: row.command.lane.target, appID: row.command.lane.appID, from: number)
            try transaction.insert(row, JournalTests.content)
            try transaction.keep(key, of: row.command)
            return row.command.id
        }
    }

    private static func row(_ row: SentCommand, _ state: SentCommand.State) -> SentCommand {
        SentCommand(restoring: row.command, state: state, cancelRequested: false, signings: 1)
    }

    @Test func sameKeyIsTheSameCommand() async throws {
        let first = try await submit(1, key())
        #expect(try await submit(2, key()) == first)
        // Each principal has keys of its own, and so has the fallback of a launch.
        #expect(try await submit(3, key(of: "token")) != first)
        var fallback = key()
        fallback.attempt = 1
        #expect(try await submit(4, fallback) != first)
        // Another process, or a later one.
        let other = try support.journal()
        #expect(try await other.write { try $0.submitted(key(), now: 6)?.command.id } == first)
    }

    @Test func keyIsNotForAnotherRequest() async throws {
        _ = try await submit(1, key())
        let error = await #expect(throws: CommandFailure.self) { try await submit(2, key(request: #"{"uri":"x:1"}"#)) }
        guard case .keyReused? = error else {
            Issue.record("unexpected \(String(describing: error))")
            return
        }
    }

    @Test func keyEndsAfterADay() async throws {
        let first = try await submit(1, key(), now: 1_000_000)
        #expect(try await submit(2, key(), now: 1_000_000 + SubmissionKey.life - 1) == first)
        let later = 1_000_000 + SubmissionKey.life
        #expect(try await journal.write { try $0.submitted(key(), now: later) } == nil)
        let second = try await submit(3, key(request: "other"), now: later)
        #expect(second != first)
        #expect(try await submit(4, key(request: "other"), now: later + 1) == second)
    }

    @Test func noKeyIsForgottenEarly() async throws {
        try await journal.write { transaction in
            for number in 0..<SubmissionKey.maximum {
                try transaction.run(
                    "INSERT INTO submissions (principal, key, attempt, request, command, ends) VALUES ('a', ?, 0, zeroblob(32), zeroblob(16), 100)",
                    ["\(number)"]
                )
            }
        }
        await #expect(throws: CommandFailure.self) { try await submit(1, key(), now: 50) }
        // The refused command was not stored.
        #expect(try await journal.write { try $0.openCommands() }.isEmpty)
        _ = try await submit(1, key(), now: 100)
    }

    @Test func keyKeepsItsCommand() async throws {
        var limits = Limits()
        limits[.mailboxCommands] = 16
        let journal = try Journal(path: "\(support.directory.path)/small.sqlite", endpoint: support.endpoint, limits: limits)
        let kept = key()
        let first = try await journal.write { transaction -> CommandID in
            var first: CommandID?
            for number in 1...64 as ClosedRange<UInt64> {
                let row = SentCommand.prepare(support.command(number), isConnected: false).0
                _ = try transaction.nextNumber(to: row.command.lane.target, appID: row.command.lane.appID, from: number)
                try transaction.insert(row, JournalTests.content)
                if first == nil {
                    first = row.command.id
                    try transaction.keep(kept, of: row.command)
                }
                try transaction.update(Self.row(row, .final(CommandFinal(attestedByRelay: .expired))))
            }
            return try #require(first)
        }
        #expect(try await journal.write { try $0.submitted(kept, now: 6)?.command.id } == first)
        #expect(try await journal.write { try $0.sentCommands() }.count < 64)
    }

    @Test func changesAreToldInTheirOrder() async throws {
        let start = try await journal.write { try $0.lastCommandChange() }
        let id = try await submit(1, key())
        for state in [.sent, .accepted(.accepted), .accepted(.accepted), .accepted(.delivered)] as [SentCommand.State] {
            try await journal.write { transaction in
                guard let row = try transaction.sent(id) else { return }
                try transaction.update(Self.row(row, state))
            }
        }
        try await journal.write { transaction in
            guard let row = try transaction.sent(id) else { return }
            try transaction.update(Self.row(row, .final(CommandFinal(attestedByRelay: .expired))))
        }
        let all = try await journal.write { try $0.commandChanges(after: start) }
        #expect(!all.hasGap && all.changes.allSatisfy { $0.id == id })
        #expect(all.changes.map(\.state) == [.stored, .progress(.accepted), .progress(.delivered), .ended])
        let rest = try await journal.write { try $0.commandChanges(after: all.changes[1].sequence) }
        #expect(rest.changes == Array(all.changes.dropFirst(2)))
        let last = try await journal.write { try $0.lastCommandChange() }
        #expect(last == all.changes.last?.sequence)
        // A sequence of a lost journal.
        #expect(try await journal.write { try $0.commandChanges(after: CommandSequence(rawValue: last.rawValue + 1)) }.hasGap)
    }

    @Test func oldChangesAreForgottenAndMissed() async throws {
        let id = try await submit(1, key())
        try await journal.write { transaction in
            for number in 0..<CommandChange.kept {
                let state = number.isMultiple(of: 2) ? "accepted" : "delivered"
                try transaction.run("UPDATE sent_commands SET state = 'accepted', progress = ? WHERE id = ?", [state, id.column])
            }
        }
        #expect(try await journal.write { try $0.commandChanges(after: CommandSequence(rawValue: 0)) }.hasGap)
        let first = try await journal.write { try $0.commandChanges(after: CommandSequence(rawValue: 1)) }
        #expect(!first.hasGap && first.changes.count == 256 && first.changes.first?.sequence.rawValue == 2)
    }
}

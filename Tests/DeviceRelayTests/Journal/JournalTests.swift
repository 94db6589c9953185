// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import Testing

@testable import DeviceRelay

@Suite struct JournalTests {
    let directory: TemporaryDirectory
    let endpoint = EndpointID(P256SigningKey().publicKey)
    let peer = EndpointID(P256SigningKey().publicKey)

    init() throws { directory = try TemporaryDirectory() }

    var path: String { "\(directory.path)/journal.sqlite" }

    func journal(limits: Limits = Limits()) throws -> Journal { try Journal(path: path, endpoint: endpoint, limits: limits, patience: 0.2) }

    func command(_ number: UInt64, to target: EndpointID? = nil, from sender: EndpointID? = nil, appID: String = "app") -> CommandDescriptor
    {
        var random = SystemRandomNumberGenerator()
        var ids = CommandIDGenerator()
        let lane = CommandLane(sender: sender ?? endpoint, target: target ?? peer, appID: appID)
        let id = ids.next(now: 1_000_000 &+ number, using: &random)
        return CommandDescriptor(
            id: id,
            lane: lane,
            number: number,
            created: 5,
            expires: 50,
            digest: Digest256(bytes: Array(repeating: UInt8(truncatingIfNeeded: number), count: 32)) ?? Digest256.zero,
            size: 3
        )
    }

    static let content = JournalTransaction.SentContent(blob: [1, 2, 3], body: [4], target: [5])

    static let states: [SentCommand.State] = [
        .prepared, .sent, .withdrawn, .accepted(.accepted), .accepted(.waking(CommandWake())), .accepted(.delivered),
        .refused(CommandRejection(.idConflict, mayHaveRun: true)),
        .refused(CommandRejection(.limit(LimitExceeded(limit: .mailboxBytes, allowed: 7, requested: 8)), mayHaveRun: false)),
        .refused(CommandRejection(.limit(LimitExceeded(limit: .commandBytes, allowed: 7, requested: 8)), mayHaveRun: false)),
        .refused(CommandRejection(.clockSkew, mayHaveRun: true)), .refused(CommandRejection(.numberPassed, mayHaveRun: true)),
        .refused(CommandRejection(.expired, mayHaveRun: false)), .refused(CommandRejection(.livesTooLong, mayHaveRun: false)),
        .refused(CommandRejection(.targetUnknown, mayHaveRun: false)),
        .refused(CommandRejection(.other(code: "tooManyRequests"), mayHaveRun: false)),
        .refused(CommandRejection(.other(code: ""), mayHaveRun: false)),
        .final(CommandFinal(attestedByRelay: .expired)), .final(CommandFinal(attestedByRelay: .cancelled)),
        .final(CommandFinal(attestedByRelay: .indeterminate(.targetLost))),
        .final(CommandFinal(outcome: .succeeded, receipt: [9], reply: [])),
        .final(CommandFinal(outcome: .declined, receipt: [9], reply: nil)),
        .final(CommandFinal(outcome: .declined(reason: "too many"), receipt: [9], reply: nil)),
        .final(CommandFinal(outcome: .unsupported, receipt: [9], reply: nil)),
        .final(CommandFinal(outcome: .failed(reason: ""), receipt: [9], reply: [1, 2])),
        .final(CommandFinal(outcome: .failed(reason: "größer ist's"), receipt: [9], reply: nil)),
        .final(CommandFinal(outcome: .indeterminate(.interrupted), receipt: [9], reply: nil)),
        .final(CommandFinal(outcome: .indeterminate(.timedOut), receipt: [9], reply: nil)),
    ]

    @Test func vouchersAreKeptUntilSentOrTheirEndpointIsRevoked() async throws {
        let journal = try journal()
        let (one, two) = (EndpointID(P256SigningKey().publicKey), EndpointID(P256SigningKey().publicKey))
        let waiting = try await journal.write { transaction in
            for endpoint in [one, two] {
                try transaction.store(.init(endpoint: endpoint, record: [1], pinned: 1))
                try transaction.addVoucher(for: endpoint)
                try transaction.addVoucher(for: endpoint)
            }
            return try transaction.vouchers()
        }
        #expect(Set(waiting) == [one, two])
        let left = try await journal.write { transaction in
            try transaction.storeRevocation(of: one, [7], isUnsent: true)
            return try transaction.vouchers()
        }
        #expect(left == [two])
        try await journal.write { try $0.removeVoucher(for: two) }
        #expect(try journal.read { try $0.vouchers() }.isEmpty)
    }

    @Test func theLastRegistrationOfAnAppIsKept() async throws {
        let journal = try journal()
        try await journal.write {
            try $0.setRegistration([1], of: "a")
            try $0.setRegistration([2], of: "a")
            try $0.setRegistration([3], of: "b")
            try $0.removeRegistration(of: "b")
        }
        #expect(try journal.read { try [$0.registration(of: "a"), $0.registration(of: "b")] } == [[2], nil])
    }

    @Test func everyStateOfASentCommandIsReadBack() async throws {
        var stored: [SentCommand] = []
        for (index, state) in Self.states.enumerated() {
            let sent = SentCommand(
                restoring: command(index == 0 ? UInt64.max : UInt64(index)),
                state: state,
                cancelRequested: index % 2 == 0,
                signings: index + 1
            )
            stored.append(sent)
        }
        let rows = stored
        do {
            let journal = try journal()
            try await journal.write { transaction in for sent in rows { try transaction.add(sent) } }
            // Every open state can follow every other as far as the journal is concerned; an end stands.
            try await journal.write { transaction in
                for (sent, other) in zip(rows, rows.reversed()) where sent.isEnded || !other.isEnded {
                    try transaction.update(
                        SentCommand(restoring: sent.command, state: other.state, cancelRequested: true, signings: 9)
                    )
                    if !sent.isEnded { try transaction.update(sent) }
                }
            }
        }
        let again = try journal()
        let found = try again.read { try $0.sentCommands() }
        #expect(found == rows.sorted { $0.command.id < $1.command.id })
        #expect(try again.read { try $0.sentContent(rows[3].command.id) } == Self.content)
        #expect(try again.read { try $0.sent(rows[5].command.id) } == rows[5])
    }

    @Test func everyStateOfAReceivedCommandIsReadBack() async throws {
        let states: [CommandTarget.State] = [
            .received, .handling, .answered(.succeeded), .answered(.failed(reason: "x")), .answered(.indeterminate(.timedOut)),
            .settled(.succeeded), .settled(.declined(reason: "y")),
        ]
        let rows = states.enumerated().map { index, state in
            CommandTarget.Row(
                restoring: command(UInt64(index) + 1, to: endpoint, from: peer, appID: "app\(index % 2)"),
                state: state,
                paths: [index < 3 ? .relay : .direct(peer)],
                replyBytes: index == 2 ? 1 : 0
            )
        }
        let result = JournalTransaction.Result(receipt: [7], reply: [8])
        do {
            let journal = try journal()
            try await journal.write { transaction in
                for row in rows { try transaction.persist(row, highest: row.command.number, content: .init(blob: [1, 2, 3], record: [7])) }
                try transaction.persist(rows[2], highest: nil, result: result)
                // A highest number never goes back.
                try transaction.persist(rows[0], highest: 1)
            }
        }
        let again = try journal()
        let positions = [
            CommandLane(sender: peer, target: endpoint, appID: "app0"): CommandTarget.LanePosition(number: 7, latest: rows[6].command.id),
            CommandLane(sender: peer, target: endpoint, appID: "app1"): .init(number: 6, latest: rows[5].command.id),
        ]
        #expect(try again.read { try $0.target() } == CommandTarget(positions: positions, rows: rows))
        #expect(try again.read { try $0.result(rows[2].command.key) } == result)
        #expect(try again.read { try $0.receivedContent(rows[1].command.key) } == .init(blob: [1, 2, 3], record: [7]))
        try await again.write { try $0.remove(rows[2].command.key) }
        #expect(try again.read { try $0.result(rows[2].command.key) } == nil)
        #expect(try again.read { try $0.receivedContent(rows[2].command.key) } == nil)
        // The lane is never removed.
        #expect(try again.read { try $0.target() } == CommandTarget(positions: positions, rows: rows.filter { $0 != rows[2] }))
    }

    @Test func actionsOfTheStateMachinesAreStored() async throws {
        let journal = try journal()
        var target = try journal.read { try $0.target() }
        let clock = TargetClock(own: 1, relay: 1)
        let first = command(1, to: endpoint, from: peer)
        var actions = target.offered(first, check: .valid, clock)
        actions += target.handlerEnded(first.key, .succeeded, reply: [3], clock)
        actions += target.offered(command(2, to: endpoint, from: peer), check: .refused(.unsupported), clock)
        let all = actions
        try await journal.write { transaction in
            for action in all {
                let (row, highest, reply): (CommandTarget.Row, UInt64?, [UInt8]?)
                switch action {
                case .persist(let persisted, let its, let answer): (row, highest, reply) = (persisted, its, answer)
                case .note(let noted, let answer): (row, highest, reply) = (noted, nil, answer)
                default: continue
                }
                let isAnswered = if case .answered = row.state { true } else { false }
                try transaction.persist(
                    row,
                    highest: highest,
                    content: row.state == .received ? .init(blob: [1, 2, 3], record: [7]) : nil,
                    result: isAnswered ? JournalTransaction.Result(receipt: [1], reply: reply) : nil
                )
            }
        }
        var restored = try journal.read { try $0.target() }
        #expect(restored.connected() == target.connected())
        #expect(restored.connected().count == 2)
    }

    @Test func commandNumbersGrowWithinALane() async throws {
        let (one, two) = (try journal(), try journal())
        let other = EndpointID(P256SigningKey().publicKey)
        let peer = peer
        #expect(try await one.write { try $0.nextNumber(to: peer, appID: "a", from: 1) } == 1)
        #expect(try await two.write { try $0.nextNumber(to: peer, appID: "a", from: 1) } == 2)
        #expect(try await one.write { try $0.nextNumber(to: peer, appID: "b", from: 1) } == 1)
        #expect(try await one.write { try $0.nextNumber(to: other, appID: "a", from: 1) } == 1)
        // The time, unless a number that was used is higher.
        #expect(try await one.write { try $0.nextNumber(to: peer, appID: "a", from: 1_000) } == 1_000)
        #expect(try await two.write { try $0.nextNumber(to: peer, appID: "a", from: 999) } == 1_001)
        // What others name is bounded, so that none can use up the numbers.
        let lane = CommandLane(sender: endpoint, target: peer, appID: "a")
        #expect(try await one.write { try $0.raiseLane(lane, to: 5_000) })
        #expect(try await one.write { try !$0.raiseLane(lane, to: 4_000) })
        #expect(try await one.write { try !$0.raiseLane(lane, to: CommandNumber.maximumFromOthers + 1) })
        #expect(try await one.write { try $0.nextNumber(to: peer, appID: "a", from: 1) } == 5_001)
        let raw = try DatabaseQueue(path: path)
        // With the top bit flipped.
        let last = Int64(bitPattern: CommandNumber.maximum - 1 ^ 1 << 63)
        try await raw.write { try $0.execute(sql: "UPDATE sent_lanes SET highest = ? WHERE app = 'a'", arguments: [last]) }
        #expect(try await two.write { try $0.nextNumber(to: peer, appID: "a", from: 1) } == CommandNumber.maximum)
        await #expect(throws: JournalError.self) { try await two.write { try $0.nextNumber(to: peer, appID: "a", from: 1) } }
    }

    @Test func unansweredCommandsOfALaneAreReadInOrder() async throws {
        let (one, two) = (try journal(), try journal())
        let peer = peer
        let open: [SentCommand.State] = [.sent, .prepared, .accepted(.waking(CommandWake())), .withdrawn, .sent, .prepared]
        for (index, state) in open.enumerated() {
            let sent = SentCommand(restoring: command(UInt64(6 - index)), state: state, cancelRequested: false, signings: 1)
            try await one.write { try $0.add(sent) }
        }
        let other = SentCommand(restoring: command(9, appID: "other"), state: .sent, cancelRequested: false, signings: 1)
        try await one.write { try $0.add(other) }
        let numbers = try await two.write { transaction in
            try transaction.unansweredCommands(to: peer, appID: "app").compactMap { try transaction.sent($0)?.command.number }
        }
        #expect(numbers == [1, 2, 5, 6])
        let known = try two.read { try $0.openCommands() }
        #expect(known.map(\.command.number).sorted() == [1, 2, 4, 5, 6, 9])
    }

    /// A process that does not know of the mark stores nothing that leaves the target out of account.
    @Test func markedCommandIsKeptFromOtherProcesses() async throws {
        let (one, two) = (try journal(), try journal())
        let first = command(1)
        @Sendable func row(_ state: SentCommand.State, isDirect: Bool = false) -> SentCommand {
            SentCommand(restoring: first, state: state, cancelRequested: false, signings: 1, isDirect: isDirect)
        }
        let other = SentCommand(restoring: command(2, appID: "other"), state: .prepared, cancelRequested: false, signings: 1)
        try await one.write { transaction in
            try transaction.add(row(.prepared))
            try transaction.add(other)
        }
        #expect(try two.read { try $0.openTargets() } == [peer])
        let marked = try await two.write { try $0.markDirect(to: peer) }
        #expect(marked.map(\.state) == [.sent, .sent] && marked.allSatisfy(\.isDirect))
        #expect(try await two.write { try $0.markDirect(to: endpoint) }.isEmpty)
        let expired = CommandFinal(attestedByRelay: .expired)
        for state in [SentCommand.State.prepared, .withdrawn, .refused(.init(.expired, mayHaveRun: false)), .final(expired)] {
            #expect(try await !one.write { try $0.update(row(state)) }, "\(state)")
        }
        // What says nothing about the end is stored, and the mark stays.
        #expect(try await one.write { try $0.update(row(.accepted(.accepted))) })
        #expect(try two.read { try $0.sent(first.id) } == row(.accepted(.accepted), isDirect: true))
        #expect(try await one.write { try $0.update(row(.final(CommandFinal(outcome: .succeeded, receipt: [1], reply: nil)))) })
        #expect(try await two.write { try $0.markDirect(to: peer) }.map(\.command.number) == [2])
    }

    @Test func refusalOfWhatAnotherProcessMaySendIsNotStored() async throws {
        let (one, two) = (try journal(), try journal())
        let lane = command(1)
        @Sendable func row(_ state: SentCommand.State, isShared: Bool = false) -> SentCommand {
            SentCommand(restoring: lane, state: state, cancelRequested: false, signings: 1, isShared: isShared)
        }
        let full = CommandRejection(.limit(.init(limit: .mailboxCommands, allowed: 1, requested: 2)), mayHaveRun: false)
        try await one.write { try $0.add(row(.sent)) }
        #expect(try await two.write { try $0.update(row(.sent, isShared: true)) })
        #expect(try await !one.write { try $0.update(row(.refused(full))) })
        // The mark stays.
        #expect(try await one.write { try $0.update(row(.sent)) })
        #expect(try two.read { try $0.sent(lane.id) } == row(.sent, isShared: true))
        #expect(try await two.write { try $0.update(row(.accepted(.accepted))) })
        #expect(try await !one.write { try $0.update(row(.refused(full))) })
        #expect(try await one.write { try $0.update(row(.refused(CommandRejection(.expired, mayHaveRun: false)))) })
    }

    @Test func signingAgainReplacesTheStoredCommand() async throws {
        let journal = try journal()
        let before = SentCommand(restoring: command(1), state: .prepared, cancelRequested: false, signings: 1)
        let old = before.command
        let anew = CommandDescriptor(
            id: old.id,
            lane: old.lane,
            number: 9,
            created: 6,
            expires: 60,
            digest: Digest256.zero,
            size: 4
        )
        let after = SentCommand(restoring: anew, state: .sent, cancelRequested: false, signings: 2)
        let content = JournalTransaction.SentContent(blob: [9, 9, 9, 9], body: [4], target: [5])
        try await journal.write { try $0.add(before) }
        // Another process has signed it again first, or has sent it.
        #expect(try await !journal.write { try $0.update(after, .init(content, insteadOf: Digest256(hashing: [7]))) })
        let sent = SentCommand(restoring: old, state: .sent, cancelRequested: false, signings: 1)
        #expect(try await journal.write { try $0.update(sent) })
        #expect(try await !journal.write { try $0.update(after, .init(content, insteadOf: old.digest)) })
        #expect(try journal.read { try $0.sentCommands() } == [sent])
        #expect(try await journal.write { try $0.update(before) })
        #expect(try await journal.write { try $0.update(after, .init(content, insteadOf: old.digest)) })
        // The state of the earlier bytes is no state of these.
        #expect(try await !journal.write { try $0.update(sent) })
        #expect(try journal.read { try $0.sentCommands() } == [after])
        #expect(try journal.read { try $0.sentContent(old.id) } == content)
        let peer = peer
        #expect(try await journal.write { try $0.nextNumber(to: peer, appID: "app", from: 1) } == 10)
        try await journal.write { try $0.forgetSent(old.id) }
        #expect(try journal.read { try $0.sentContent(old.id) } == nil)
    }

    @Test func endedCommandsAreDroppedAndOpenCommandsAreBounded() async throws {
        var limits = Limits()
        limits[.mailboxCommands] = 3
        let journal = try journal(limits: limits)
        for number in UInt64(1)...6 {
            let sent = SentCommand(restoring: command(number), state: .withdrawn, cancelRequested: false, signings: 1)
            try await journal.write { try $0.add(sent) }
        }
        #expect(try journal.read { try $0.sentCommands() }.map(\.command.number) == [4, 5, 6])
        for number in UInt64(7)...9 {
            let sent = SentCommand(restoring: command(number), state: .sent, cancelRequested: false, signings: 1)
            try await journal.write { try $0.add(sent) }
        }
        let tooMany = SentCommand(restoring: command(10), state: .sent, cancelRequested: false, signings: 1)
        await #expect(throws: LimitExceeded(limit: .mailboxCommands, allowed: 3, requested: 4)) {
            try await journal.write { try $0.add(tooMany) }
        }
        #expect(try journal.read { try $0.sentCommands() }.filter { !$0.isEnded }.count == 3)
    }

    @Test func registrationsOfPinsAreReadBackAndGoWithThem() async throws {
        let (first, second) = (peer, EndpointID(P256SigningKey().publicKey))
        let unknown = EndpointID(P256SigningKey().publicKey)
        let journal = try journal()
        try await journal.write { transaction in
            for endpoint in [first, second] { try transaction.store(JournalTransaction.Pin(endpoint: endpoint, record: [1], pinned: 5)) }
            try transaction.storeRegistrations([[1], [2]], of: first)
            try transaction.storeRegistrations([[3]], of: second)
            try transaction.storeRegistrations([[4]], of: unknown)
            // A newer record keeps them.
            try transaction.store(JournalTransaction.Pin(endpoint: first, record: [2], pinned: 6))
        }
        func stored() throws -> [[[UInt8]]] {
            try journal.read { transaction in try [first, second, unknown].map { try transaction.registrations(of: $0) } }
        }
        #expect(try stored() == [[[1], [2]], [[3]], []])
        try await journal.write { try $0.storeRegistrations([[5]], of: first) }
        #expect(try stored() == [[[5]], [[3]], []])
        try await journal.write { _ = try $0.storeRevocation(of: first, [1], isUnsent: false) }
        #expect(try stored() == [[], [[3]], []])
        try await journal.write { try $0.forgetPeers() }
        #expect(try stored() == [[], [], []])
    }

    @Test func approvedEndpointsAreReadBack() async throws {
        let journal = try journal()
        let others = (0..<2).map { _ in EndpointID(P256SigningKey().publicKey) }
        var all = ([peer] + others).map {
            JournalTransaction.Approved(endpoint: $0, record: [1], vouchers: [[2], [3, 0]], registrations: [[4]])
        }
        func stored() throws -> Set<JournalTransaction.Approved> { Set(try journal.read { try $0.approved() }) }
        try await journal.write { [all] transaction in for one in all { try transaction.storeApproved(one, of: one.endpoint) } }
        #expect(try stored() == Set(all))
        (all[0].vouchers, all[0].registrations) = ([], [[5], [6]])
        try await journal.write { [all] in try $0.storeApproved(all[0], of: all[0].endpoint) }
        #expect(try stored() == Set(all))
        try await journal.write { [all] in try $0.storeApproved(nil, of: all[0].endpoint) }
        #expect(try stored() == Set(all.dropFirst()))
        try await journal.write { [all] transaction in
            _ = try transaction.storeRevocation(of: all[1].endpoint, [1], isUnsent: false)
            try transaction.storeApproved(all[1], of: all[1].endpoint)
        }
        #expect(try stored() == [all[2]])
        try await journal.write { try $0.forgetPeers() }
        #expect(try stored().isEmpty)
    }

    @Test func pinsAndClockOffsetAreReadBack() async throws {
        let peer = peer
        let pin = JournalTransaction.Pin(endpoint: peer, record: [1], pinned: 5)
        let newer = JournalTransaction.Pin(endpoint: peer, record: [2], pinned: 9)
        do {
            let journal = try journal()
            #expect(try journal.read { try $0.relayOffset() } == nil)
            try await journal.write { transaction in
                try transaction.setRelayOffset(-7)
                try transaction.store(pin)
                try transaction.store(newer)
                try transaction.setAccount("anna")
                try transaction.setRecord([3])
                try transaction.setEnumerated()
            }
        }
        let again = try journal()
        #expect(try again.read { try $0.relayOffset() } == -7)
        #expect(try again.read { try $0.pins() } == [JournalTransaction.Pin(endpoint: peer, record: [2], pinned: 5)])
        #expect(try again.read { try $0.ownEndpoint() } == .init(account: "anna", record: [3], hasEnumerated: true))
        try await again.write { try $0.forgetPeers() }
        #expect(try again.read { try $0.pins().isEmpty })
    }

    @Test func verificationLevelOnlyRises() async throws {
        let (journal, peer) = (try journal(), peer)
        for (knowledge, expected) in [
            (Voucher.VerificationLevel.firstSeen, Voucher.VerificationLevel.firstSeen), (.verified, .verified), (.firstSeen, .verified),
        ] {
            try await journal.write { try $0.store(.init(endpoint: peer, record: [1], pinned: 5, knowledge: knowledge)) }
            #expect(try journal.read { try $0.pins() }.map(\.knowledge) == [expected])
        }
    }

    @Test func revokedEndpointIsNotPinnedAgain() async throws {
        let peer = peer
        do {
            let journal = try journal()
            try await journal.write { transaction in
                try transaction.store(.init(endpoint: peer, record: [1], pinned: 5))
                try transaction.storeRevocation(of: peer, [7], isUnsent: true)
                // The first one stands.
                try transaction.storeRevocation(of: peer, [8], isUnsent: false)
                try transaction.store(.init(endpoint: peer, record: [2], pinned: 6))
                try transaction.forgetPeers()
            }
        }
        let again = try journal()
        #expect(try again.read { try $0.pins() }.isEmpty)
        #expect(try again.read { try $0.revoked() } == [peer])
        #expect(try again.read { try $0.unsentRevocations() }.map(\.revocation) == [[7]])
        try await again.write { try $0.setRevocationSent(peer) }
        #expect(try again.read { try $0.unsentRevocations() }.isEmpty)
        #expect(try again.read { try $0.revoked() } == [peer])
    }

    @Test func revocationsAreBounded() async throws {
        let journal = try journal()
        try await journal.write { transaction in
            for number in 0..<JournalTransaction.maximumRevocations + 5 {
                let endpoint = EndpointID(digest: Digest256(hashing: Array("\(number)".utf8)))
                try transaction.storeRevocation(of: endpoint, [7], isUnsent: false)
            }
        }
        #expect(try journal.read { try $0.revoked() }.count == JournalTransaction.maximumRevocations)
    }

    @Test func inviterIsStoredUntilItIsForgotten() async throws {
        let peer = peer
        do {
            let journal = try journal()
            try await journal.write { try $0.setJoined(by: peer) }
        }
        let again = try journal()
        #expect(try again.read { try $0.ownEndpoint() } == .init(account: nil, record: nil, hasEnumerated: true, inviter: peer))
        try await again.write { try $0.forgetInviter() }
        #expect(try again.read { try $0.ownEndpoint() } == .init(account: nil, record: nil, hasEnumerated: true))
    }

    @Test func pinsAreBounded() async throws {
        let journal = try journal()
        let most = DeviceDirectory.maximumEndpoints
        let peers = (0...most).map { EndpointID(digest: Digest256(hashing: Array("\($0)".utf8))) }
        let exceeded = LimitExceeded(limit: .endpointsPerAccount, allowed: most, requested: most + 1)
        await #expect(throws: exceeded) {
            try await journal.write { transaction in
                for peer in peers { try transaction.store(JournalTransaction.Pin(endpoint: peer, record: [1], pinned: 0)) }
            }
        }
        #expect(try journal.read { try $0.pins().isEmpty })
    }
}

extension JournalTransaction {
    /// A command gets its number in the transaction that stores it; here it brings it.
    fileprivate func add(_ sent: SentCommand) throws {
        _ = try nextNumber(to: sent.command.lane.target, appID: sent.command.lane.appID, from: 1)
        try insert(sent, JournalTests.content)
    }
}

extension Digest256 {
    static let zero = Digest256(P256SigningKey.sampleRelay.publicKey)

    init(_ key: SigningPublicKey) { self = RelayID(key).digest }
}

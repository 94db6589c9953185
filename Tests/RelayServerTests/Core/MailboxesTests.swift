// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Testing

@testable import RelayServer

@Suite struct MailboxesTests {
    static let account = AccountID("account")
    static let (sender, target) = (
        EndpointRow.sample(1, account).id, EndpointRow.sample(2, account).id
    )
    static let host = ChannelID(1)

    private func command(_ number: Int, size: Int = 1, lane: String = "app") -> CommandDescriptor {
        var random = SeededGenerator(seed: UInt64(number))
        var ids = CommandIDGenerator()
        return CommandDescriptor(
            id: ids.next(now: UInt64(number), using: &random),
            lane: CommandLane(sender: Self.sender, target: Self.target, appID: lane),
            number: UInt64(number),
            created: 10,
            expires: 1_000,
            digest: Digest256(hashing: [UInt8(truncatingIfNeeded: number)]),
            size: size
        )
    }

    private func opened(_ mailbox: [CommandDescriptor] = []) -> Mailboxes {
        var boxes = Mailboxes()
        boxes.opened(Self.host)
        boxes.read([], mailbox, for: Self.host)
        return boxes
    }

    @Test func commandForAHostWithRoomIsOfferedInItsTransaction() {
        var boxes = opened()
        #expect(boxes.begin(command(1), for: Self.host) == Self.host)
        #expect(!boxes.isStoring)
        // Without a host, and before the mailbox of a host is read, it waits.
        #expect(boxes.begin(command(2), for: nil) == nil)
        #expect(boxes.isStoring)
        // A later one must not overtake it.
        #expect(boxes.begin(command(3), for: Self.host) == nil)
        boxes.endStoring(for: Self.target)
        #expect(boxes.isStoring)
        boxes.endStoring(for: Self.target)
        #expect(!boxes.isStoring)
        #expect(boxes.begin(command(4), for: Self.host) == Self.host)
    }

    @Test func hostThatHasLeftGetsNothing() {
        var boxes = opened([command(1)])
        boxes.left(Self.host)
        #expect(boxes.nextOffer(on: Self.host) == nil)
        #expect(boxes.begin(command(2), for: Self.host) == nil)
        boxes.closed(Self.host)
        #expect(boxes.drain(testRef(1), on: Self.host) == false)
        #expect(boxes.nextOutcome(for: Self.host) == nil)
    }

    @Test func drainIsAnsweredOnceTheMailboxIsEmpty() {
        var boxes = Mailboxes()
        boxes.opened(Self.host)
        #expect(boxes.drain(testRef(1), on: Self.host) == true)
        // The mailbox is not read yet.
        #expect(boxes.takeDrained(by: Self.target, on: Self.host) == [])
        boxes.read([], [command(1)], for: Self.host)
        #expect(boxes.nextOffer(on: Self.host) == command(1).key)
        #expect(boxes.takeDrained(by: Self.target, on: Self.host) == [])
        for number in 2...4 { #expect(boxes.drain(testRef(Int64(number)), on: Self.host) == true) }
        #expect(boxes.drain(testRef(5), on: Self.host) == false)
        #expect(boxes.begin(command(2), for: nil) == nil)
        boxes.answered(command(1), on: Self.host)
        // Something is being stored for the endpoint.
        #expect(boxes.takeDrained(by: Self.target, on: Self.host) == [])
        boxes.endStoring(for: Self.target)
        #expect(boxes.takeDrained(by: Self.target, on: Self.host) == (1...4).map { testRef($0) })
        #expect(boxes.takeDrained(by: Self.target, on: Self.host) == [])
    }

    @Test func outcomesAreSentInTheirOrder() {
        var boxes = Mailboxes()
        boxes.opened(Self.host)
        let keys = (1...3).map { command($0).key }
        boxes.read(keys, nil, for: Self.host)
        for key in keys + [nil] { #expect(boxes.nextOutcome(for: Self.host) == key) }
    }

    /// What waits for the store, in order.
    private enum Work {
        /// - offered: the channel to which it is offered in its transaction.
        case store(CommandDescriptor, offered: ChannelID?)
        case read(ChannelID)
    }

    /// Commands are stored in their order, while hosts come and go. No command is offered before an earlier one of its lane, and none is
    /// forgotten.
    @Test(arguments: 1...50 as ClosedRange<UInt64>) func noCommandOvertakesAnother(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var boxes = Mailboxes()
        var (host, lastChannel, last): (ChannelID?, UInt64, Int) = (nil, 0, 0)
        var waiting: [Work] = []
        var (stored, offered, answered): ([CommandDescriptor], [CommandDescriptor], Set<CommandKey>) = ([], [], [])
        func offer(_ command: CommandDescriptor) {
            let earlier = stored.filter { $0.lane == command.lane && $0.number < command.number }
            #expect(earlier.allSatisfy { offered.contains($0) } && !offered.contains(command), "seed \(seed)")
            offered.append(command)
        }
        func work() {
            switch waiting.removeFirst() {
            case .store(let new, let channel):
                stored.append(new)
                if let channel {
                    if channel == host { offer(new) }
                } else {
                    boxes.endStoring(for: Self.target)
                    if let host { boxes.add(new, to: host) }
                }
            case .read(let channel): boxes.read([], stored, for: channel)
            }
        }
        func offerNext() {
            guard let host else { return }
            while let key = boxes.nextOffer(on: host) {
                if let command = stored.first(where: { $0.key == key }) { offer(command) } else { Issue.record("seed \(seed)") }
            }
        }
        func answer(_ command: CommandDescriptor) {
            guard let host else { return }
            boxes.answered(command, on: host)
            answered.insert(command.key)
        }
        func connect() {
            lastChannel += 1
            (host, offered, answered) = (ChannelID(lastChannel), [], [])
            boxes.opened(ChannelID(lastChannel))
            waiting.append(.read(ChannelID(lastChannel)))
        }
        for _ in 0..<300 {
            switch Int.random(in: 0..<6, using: &random) {
            case 0, 1:
                last += 1
                let new = command(last, size: Int.random(in: 1...300_000, using: &random), lane: "app \(last % 2)")
                waiting.append(.store(new, offered: boxes.begin(new, for: host)))
            case 2, 3: if !waiting.isEmpty { work() }
            case 4:
                if let host { boxes.closed(host) }
                if host == nil { connect() } else { host = nil }
            default: if let done = offered.randomElement(using: &random) { answer(done) }
            }
            offerNext()
        }
        if host == nil { connect() }
        while !waiting.isEmpty {
            work()
            offerNext()
        }
        #expect(!boxes.isStoring, "seed \(seed)")
        while let next = offered.first(where: { !answered.contains($0.key) }) {
            answer(next)
            offerNext()
        }
        #expect(offered.count == stored.count, "seed \(seed)")
    }
}

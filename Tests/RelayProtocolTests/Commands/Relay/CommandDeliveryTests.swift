// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct CommandDeliveryTests {
    @Test func atMostSixteenCommandsAreUnanswered() {
        let commands = (1...20).map { CommandDescriptor.test(number: $0) }
        var delivery = CommandDelivery(mailbox: commands.shuffledBySeed())
        #expect(delivery.all() == commands.prefix(16).map(\.key))
        #expect(delivery.all() == [])
        delivery.answered(commands[4])
        #expect(delivery.all() == [commands[16].key])
        delivery.answered(commands[4])
        #expect(delivery.all() == [])
        delivery.add(.test(number: 21))
        #expect(delivery.all() == [])
    }

    @Test func atMostOneMebibyteIsUnanswered() {
        let commands = (1...6).map { CommandDescriptor.test(number: $0, size: 256 << 10) }
        var delivery = CommandDelivery(mailbox: commands)
        #expect(delivery.all() == commands.prefix(4).map(\.key))
        delivery.answered(commands[0])
        #expect(delivery.all() == [commands[4].key])
    }

    @Test func oneCommandOfAnySizeIsOffered() {
        let large = CommandDescriptor.test(number: 1, size: .max)
        let small = CommandDescriptor.test(number: 2, size: 1)
        var delivery = CommandDelivery(mailbox: [large, small])
        #expect(delivery.all() == [large.key])
        delivery.answered(large)
        #expect(delivery.all() == [small.key])
    }

    @Test func lanesAreServedInTurn() {
        let many = (1...20).map { CommandDescriptor.test(number: $0) }
        let other = CommandDescriptor.test(number: 1, app: "photos")
        var delivery = CommandDelivery(mailbox: many + [other])
        #expect(delivery.all().prefix(2) == [many[0].key, other.key])
    }

    @Test func endedCommandIsNotOffered() {
        let commands = (1...18).map { CommandDescriptor.test(number: $0) }
        var delivery = CommandDelivery(mailbox: commands)
        _ = delivery.all()
        delivery.answered(commands[16])
        #expect(delivery.all() == [])
        delivery.answered(commands[0])
        #expect(delivery.all() == [commands[17].key])
        delivery.answered(commands[1])
        #expect(delivery.all() == [])
    }

    @Test func storedCommandBeginsOnlyWithoutWaitingCommands() {
        let commands = (1...18).map { CommandDescriptor.test(number: $0) }
        var delivery = CommandDelivery(mailbox: [])
        let begun = commands.prefix(16).filter { delivery.begin($0) }
        #expect(begun.count == 16)
        let isRoomForOneMore = delivery.begin(commands[16])
        #expect(!isRoomForOneMore)
        delivery.answered(commands[0])
        delivery.add(commands[16])
        // It would overtake the waiting command.
        let overtakes = delivery.begin(commands[17])
        #expect(!overtakes)
        #expect(delivery.all() == [commands[16].key])
        delivery.answered(commands[1])
        let isOfferedTwice = delivery.begin(commands[2])
        #expect(!isOfferedTwice)
        let begins = delivery.begin(commands[17])
        #expect(begins)
    }

    @Test func commandIsOfferedOnce() {
        let command = CommandDescriptor.test(number: 1)
        var delivery = CommandDelivery(mailbox: [command, command])
        #expect(delivery.all() == [command.key])
        delivery.add(command)
        #expect(delivery.all() == [])
    }

    /// In any order of events, the window is respected, lanes keep their order, and no command is forgotten.
    @Test(arguments: 0..<20 as Range<UInt64>)
    func deliveryWindowHolds(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var delivery = CommandDelivery(mailbox: [])
        var unanswered: [CommandKey: CommandDescriptor] = [:]
        var all: [CommandKey: CommandDescriptor] = [:]
        var offered: [CommandKey] = []
        var last: [CommandLane: UInt64] = [:]
        var number: UInt64 = 0
        while offered.count < 150 {
            if number < 150, Bool.random(using: &random) {
                number += 1
                let app = ["player", "photos", "notes app"].randomElement(using: &random) ?? ""
                let command = CommandDescriptor.test(number: number, app: app, size: Int.random(in: 1...300_000, using: &random))
                all[command.key] = command
                delivery.add(command)
            } else if let command = unanswered.values.min(by: { $0.number < $1.number }) {
                unanswered[command.key] = nil
                delivery.answered(command)
            }
            for key in delivery.all() {
                guard let command = all[key] else { continue }
                #expect(command.number > last[command.lane, default: 0], "seed \(seed)")
                last[command.lane] = command.number
                unanswered[key] = command
                offered.append(key)
            }
            let bytes = unanswered.values.reduce(0) { $0 + $1.size }
            #expect(unanswered.count <= 1 || (unanswered.count <= 16 && bytes <= 1 << 20), "seed \(seed)")
        }
        #expect(Set(offered).count == 150, "seed \(seed)")
    }
}

extension CommandDelivery {
    fileprivate mutating func all() -> [CommandKey] {
        var keys: [CommandKey] = []
        while let key = next() { keys.append(key) }
        return keys
    }
}

extension Array {
    fileprivate func shuffledBySeed() -> [Element] {
        var random = SeededGenerator(seed: 1)
        return shuffled(using: &random)
    }
}

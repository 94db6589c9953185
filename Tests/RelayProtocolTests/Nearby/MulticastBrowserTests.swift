// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct MulticastBrowserTests {
    /// A browser with its clock, and responders on the same network.
    private struct World {
        var random = SeededGenerator(seed: 1)
        var now: Int64 = 1_000
        var browser = MulticastBrowser()

        func instance(_ number: Int, addresses: [String] = ["192.0.2.1"]) -> ServiceInstance {
            var random = SeededGenerator(seed: UInt64(1_000 + number))
            return ServiceInstance(
                ServiceInstance.Labels(using: &random),
                port: 4_711,
                text: [Array("v=1".utf8)],
                addresses: addresses.compactMap { IPAddress(parsing: $0.utf8) }
            )
        }

        func announcement(_ instance: ServiceInstance) -> DNSMessage {
            var message = DNSMessage(isResponse: true)
            message.answers = [instance.pointer] + instance.uniqueRecords
            return message
        }

        mutating func want(_ isWanted: Bool = true) { browser.want(isWanted, at: now, using: &random) }

        mutating func receive(_ message: DNSMessage, from sender: [UInt8] = [192, 0, 2, 1]) {
            guard let sender = IPAddress(bytes: sender) else { return }
            browser.received(message, from: sender, at: now)
        }

        /// Lets time pass, and returns what was asked with the times of it.
        mutating func pass(_ time: Int64) -> [(time: Int64, message: DNSMessage)] {
            let end = now + time
            var asked: [(Int64, DNSMessage)] = []
            while let next = browser.nextTime, next <= end {
                now = max(now, next)
                let (before, messages) = (browser.nextTime, browser.tick(at: now))
                asked += messages.map { (now, $0) }
                // Each tick gets somewhere.
                guard !messages.isEmpty || browser.nextTime != before else { break }
            }
            now = end
            return asked
        }
    }

    private func types(_ message: DNSMessage) -> [DNSRecord.Kind] { message.questions.map(\.type) }

    @Test func questionsBecomeRarer() {
        var world = World()
        #expect(world.pass(100_000).isEmpty)
        world.want()
        let times = world.pass(5 * 3_600_000).map(\.time)
        let pauses = zip(times, times.dropFirst()).map { $1 - $0 }
        #expect(times[0] - 101_000 >= 20 && times[0] - 101_000 <= 120)
        #expect(pauses.prefix(13) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 3_600].map { $0 * 1_000 }[...])
        world.want(false)
        #expect(world.browser.nextTime == nil)
    }

    @Test func announcedInstanceIsFoundWithoutAQuestion() {
        var world = World()
        let instance = world.instance(0, addresses: ["192.0.2.1", "fe80::1"])
        world.receive(world.announcement(instance))
        #expect(
            world.browser.instances == [
                .init(name: instance.name, port: 4_711, text: instance.text, addresses: instance.addresses)
            ]
        )
        // It is in the next question, as known, and nothing else is asked.
        world.want()
        let asked = world.pass(200)
        #expect(asked.map { types($0.message) } == [[.ptr]])
        #expect(asked[0].message.answers.map(\.content) == [.pointer(instance.name)])
    }

    @Test func missingRecordsAreAskedForAFewTimes() {
        var world = World()
        world.want()
        _ = world.pass(200)
        let instance = world.instance(0)
        var message = DNSMessage(isResponse: true)
        message.answers = [instance.pointer]
        world.receive(message)
        var asked = world.pass(60_000).filter { types($0.message) != [.ptr] }
        #expect(asked.map { Set(types($0.message)).subtracting([.ptr]) } == Array(repeating: [.srv, .txt], count: 3))
        // Then those of its host.
        message.answers = Array(instance.uniqueRecords.prefix(2))
        world.receive(message)
        asked = world.pass(60_000).filter { types($0.message) != [.ptr] }
        #expect(asked.first.map { Set(types($0.message)).subtracting([.ptr]) } == [.a, .aaaa])
        #expect(world.browser.instances.isEmpty)
        message.answers = Array(instance.uniqueRecords.dropFirst(2))
        world.receive(message)
        #expect(world.browser.instances.count == 1)
        #expect(world.pass(10_000).allSatisfy { types($0.message) == [.ptr] })
    }

    @Test func instanceThatSaysGoodbyeIsGone() {
        var world = World()
        let (one, two) = (world.instance(1), world.instance(2))
        for instance in [one, two] { world.receive(world.announcement(instance)) }
        var goodbye = world.announcement(one)
        goodbye.answers = goodbye.answers.map { record in
            var record = record
            record.timeToLive = 0
            return record
        }
        world.receive(goodbye)
        _ = world.pass(0)
        #expect(world.browser.instances.filter(\.isEnding).map(\.name) == [one.name] && world.browser.instances.count == 2)
        _ = world.pass(2_000)
        #expect(world.browser.instances.map(\.name) == [two.name])
        // A device that is still there says so after a goodbye that somebody else sent.
        world.receive(world.announcement(one))
        _ = world.pass(0)
        world.receive(goodbye)
        world.receive(world.announcement(one))
        _ = world.pass(2_000)
        #expect(world.browser.instances.count == 2 && !world.browser.instances.contains(where: \.isEnding))
    }

    @Test func silentInstanceIsAskedForAndEnds() {
        var world = World()
        world.want()
        let instance = world.instance(0)
        world.receive(world.announcement(instance))
        // The service record and the address live for 2 min: they are asked for at 80, 85, 90 and 95 %.
        let asked = world.pass(119_000).filter { types($0.message).contains(.srv) }
        #expect(asked.map(\.time) == [97_000, 103_000, 109_000, 115_000])
        #expect(asked.allSatisfy { types($0.message).contains(.a) })
        #expect(world.browser.instances.count == 1)
        _ = world.pass(2_000)
        #expect(world.browser.instances.isEmpty)
        // And after its pointer has ended, nothing is left of it.
        world.want(false)
        _ = world.pass(80 * 60_000)
        #expect(world.browser.nextTime == nil)
    }

    /// A device that sleeps answers nothing, and announces nothing when it wakes in the same network.
    @Test func sleeperIsFoundAgain() {
        var world = World()
        world.want()
        world.receive(world.announcement(world.instance(0)))
        _ = world.pass(300_000)
        #expect(world.browser.instances.isEmpty)
        world.browser.askAgain(at: world.now, using: &world.random)
        let asked = world.pass(500).map(\.message)
        #expect(asked.flatMap(\.questions).map(\.type).contains(.srv))
        // It is not listed as known, so it answers the question for the type, too.
        #expect(asked.contains { types($0).contains(.ptr) } && asked.allSatisfy(\.answers.isEmpty))
        world.receive(world.announcement(world.instance(0)))
        #expect(world.browser.instances.count == 1)
    }

    @Test func changedAddressReplacesTheOldOne() {
        var world = World()
        var instance = world.instance(0)
        world.receive(world.announcement(instance))
        _ = world.pass(5_000)
        instance.addresses = [IPAddress(parsing: "192.0.2.9".utf8)].compactMap(\.self)
        world.receive(world.announcement(instance))
        _ = world.pass(1_500)
        #expect(world.browser.instances.map(\.addresses) == [instance.addresses])
    }

    // MARK: Bad input

    @Test func floodTakesNoPlaceOfAKnownDevice() {
        var world = World()
        let known = world.instance(0)
        world.receive(world.announcement(known))
        world.browser.kept = [known.name]
        for number in 1..<2_000 {
            world.receive(world.announcement(world.instance(number)))
            _ = world.pass(100)
            // The known device announces itself again now and then.
            if number % 500 == 0 { world.receive(world.announcement(known)) }
        }
        let names = world.browser.instances.map(\.name)
        #expect(names.contains(known.name))
        #expect(names.count <= MulticastBrowser.maximumInstances && names.count > 200)
    }

    @Test func newInstancesAreLimitedInTime() {
        var world = World()
        for number in 0..<1_000 { world.receive(world.announcement(world.instance(number))) }
        #expect(world.browser.instances.count == MulticastBrowser.newPerSecond)
        // A flood of one sender does not hide another one.
        world.receive(world.announcement(world.instance(1_000)), from: [192, 0, 2, 2])
        #expect(world.browser.instances.map(\.name).contains(world.instance(1_000).name))
        for number in 1_001..<2_000 {
            world.receive(world.announcement(world.instance(number)), from: [10, 0, UInt8(number / 256), UInt8(number % 256)])
        }
        #expect(world.browser.instances.count == MulticastBrowser.newOfAllPerSecond)
    }

    /// Each new text costs its owner the search for the peer.
    @Test func changedTextsAreLimitedInTime() {
        var world = World()
        var instances = (0..<MulticastBrowser.newPerSecond).map { world.instance($0) }
        for instance in instances { world.receive(world.announcement(instance)) }
        var changes = 0
        for round in 0..<50 {
            for index in instances.indices {
                instances[index].text = [Array("v=1".utf8), Array("x=\(round)".utf8)]
                let before = world.browser.instances
                world.receive(world.announcement(instances[index]))
                if world.browser.instances != before { changes += 1 }
            }
        }
        #expect(changes == 0)
        _ = world.pass(1_000)
        world.receive(world.announcement(instances[0]))
        #expect(world.browser.instances.contains { $0.text == instances[0].text })
    }

    @Test func changedAddressesAreLimitedInTime() {
        var world = World()
        let instance = world.instance(0)
        world.receive(world.announcement(instance))
        var changes = 0
        for number in 0..<500 {
            var message = DNSMessage(isResponse: true)
            // The life of one that ends at once makes room for the next one.
            message.answers = [
                DNSRecord(
                    instance.host,
                    .address(IPAddress(bytes: [10, 0, UInt8(number / 256), UInt8(number % 256)]) ?? instance.addresses[0]),
                    timeToLive: 1,
                    isUnique: true
                )
            ]
            let before = world.browser.instances
            world.receive(message)
            if world.browser.instances != before { changes += 1 }
        }
        #expect(changes < MulticastBrowser.newPerSecond)
    }

    /// Others drop what is longer than 9,000 bytes, and what else is in the message with it.
    @Test func questionsOfLongNamesFitIntoAMessage() throws {
        var world = World()
        for number in 0..<200 {
            var message = DNSMessage(isResponse: true)
            let label = Array(repeating: UInt8(ascii: "x"), count: 60) + Array("\(number % 10)".utf8)
            let name = try #require(DeviceRelayService.type.child(label + [UInt8(number % 256)]))
            message.answers = [DNSRecord(DeviceRelayService.type, .pointer(name), timeToLive: 4_500, isUnique: false)]
            world.receive(message, from: [10, 0, 0, UInt8(number)])
        }
        world.want()
        let messages = world.pass(60_000).map(\.message)
        #expect(!messages.isEmpty && messages.allSatisfy { $0.encoded().count < 2_000 })
        #expect(messages.contains { $0.questions.first == DNSQuestion(DeviceRelayService.type, .ptr) || types($0).contains(.ptr) })
    }

    /// What does not fit into a message is asked in the next one.
    @Test func everyMissingRecordIsAskedFor() {
        var world = World()
        let instances = (0..<200).map { world.instance($0) }
        for (number, instance) in instances.enumerated() {
            var message = DNSMessage(isResponse: true)
            message.answers = [instance.pointer]
            world.receive(message, from: [10, 0, 0, UInt8(number)])
        }
        world.want()
        let asked = Set(world.pass(60_000).flatMap(\.message.questions).filter { $0.type == .srv }.map(\.name))
        #expect(asked == Set(instances.map(\.name)))
    }

    @Test func hostHasFewAddresses() {
        var world = World()
        world.receive(world.announcement(world.instance(0, addresses: (1...100).map { "192.0.2.\($0)" })))
        #expect(world.browser.instances.map(\.addresses.count) == [MulticastBrowser.maximumAddresses])
    }

    @Test func recordsOfOthersChangeNothing() throws {
        var world = World()
        let instance = world.instance(0)
        var message = world.announcement(instance)
        // A pointer to a name of another service, and records that nobody points to.
        message.answers.append(
            DNSRecord(DeviceRelayService.type, .pointer(.local(["x", "_http", "_tcp"])), timeToLive: 100, isUnique: false)
        )
        message.answers += world.instance(1).uniqueRecords
        world.receive(message)
        #expect(world.browser.instances.map(\.name) == [instance.name])
        // A query is no answer.
        var query = world.announcement(world.instance(2))
        query.isResponse = false
        world.receive(query)
        #expect(world.browser.instances.count == 1)
    }

    /// Whatever arrives, in whatever order, what is kept stays bounded, and ends.
    @Test(arguments: 0..<20) func generatedMessagesAreBounded(seed: UInt64) {
        var world = World()
        world.random = SeededGenerator(seed: seed)
        var random = SeededGenerator(seed: seed &+ 7)
        let instances = (0..<400).map { world.instance($0, addresses: ["192.0.2.\($0 % 200 + 1)", "fe80::\($0)"]) }
        for _ in 0..<500 {
            if Int.random(in: 0..<10, using: &random) == 0 { world.want(Bool.random(using: &random)) }
            var message = DNSMessage(isResponse: Bool.random(using: &random))
            for _ in 0..<Int.random(in: 0..<8, using: &random) {
                guard let instance = instances.randomElement(using: &random),
                    var record = ([instance.pointer] + instance.uniqueRecords).randomElement(using: &random)
                else { continue }
                record.timeToLive = [0, 1, 120, 4_500, .max].randomElement(using: &random) ?? 0
                record.isUnique = Bool.random(using: &random)
                message.answers.append(record)
            }
            world.receive(message)
            let asked = world.pass(Int64.random(in: 0..<3_000, using: &random))
            for (_, message) in asked { #expect(message.questions.count <= 64 && message.answers.count <= 64) }
            #expect(world.browser.instances.allSatisfy { $0.addresses.count <= MulticastBrowser.maximumAddresses })
        }
        world.want(false)
        _ = world.pass(2 * 86_400_000)
        #expect(world.browser.nextTime == nil && world.browser.instances.isEmpty)
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct MulticastResponderTests {
    /// A responder with its clock.
    private struct World {
        var random = SeededGenerator(seed: 1)
        var now: Int64 = 1_000
        var responder: MulticastResponder

        init(addresses: [String] = ["192.0.2.1", "fe80::1"]) throws {
            let labels = ServiceInstance.Labels(using: &random)
            let addresses = try addresses.map { try #require(IPAddress(parsing: $0.utf8)) }
            let instance = ServiceInstance(labels, port: 4_711, text: [Array("v=1".utf8)], addresses: addresses)
            responder = MulticastResponder(instance, at: now, using: &random)
        }

        /// Lets time pass, and returns what was done with the times of it.
        mutating func pass(_ time: Int64) -> [(time: Int64, MulticastResponder.Action)] {
            let end = now + time
            var done: [(Int64, MulticastResponder.Action)] = []
            while let next = responder.nextTime, next <= end {
                now = max(now, next)
                done += responder.tick(at: now).map { (now, $0) }
            }
            now = end
            return done
        }

        mutating func receive(_ message: DNSMessage, isLegacy: Bool = false, isOwn: Bool = false) -> [MulticastResponder.Action] {
            responder.received(message, isLegacy: isLegacy, isOwn: isOwn, at: now, using: &random)
        }
    }

    private func messages(_ actions: [MulticastResponder.Action]) -> [DNSMessage] {
        actions.compactMap { if case .send(let message, _) = $0 { message } else { nil } }
    }

    private func query(_ name: DNSName, _ kind: DNSRecord.Kind = .any, known: [DNSRecord] = []) -> DNSMessage {
        var message = DNSMessage(isResponse: false)
        message.questions = [DNSQuestion(name, kind)]
        message.answers = known
        return message
    }

    @Test func instanceIsProbedThenAnnounced() throws {
        var world = try World()
        let done = world.pass(10_000)
        let sent = messages(done.map(\.1))
        #expect(sent.map(\.isResponse) == [false, false, false, true, true])
        let times = done.map(\.time)
        #expect(times[0] <= 1_250)
        #expect(zip(times, times.dropFirst()).map { $1 - $0 } == [250, 250, 250, 1_000])
        let instance = world.responder.instance
        #expect(sent[0].questions.map(\.name) == [instance.name, instance.host])
        #expect(sent[0].authorities.map(\.content) == instance.uniqueRecords.map(\.content))
        #expect(sent[4].answers == [instance.pointer] + instance.uniqueRecords)
        #expect(world.responder.nextTime == nil)
    }

    @Test func questionsAreAnsweredOnceASecond() throws {
        var world = try World()
        _ = world.pass(10_000)
        let instance = world.responder.instance
        // An own name at once; a name that others answer too after a while, with what the asker needs next.
        let direct = messages(world.receive(query(instance.host, .a)))
        #expect(direct.map(\.answers) == [instance.uniqueRecords.filter { $0.kind == .a }])
        #expect(world.receive(query(DeviceRelayService.type, .ptr)).isEmpty)
        let shared = world.pass(120)
        #expect(shared.count == 1 && shared[0].time - (world.now - 120) >= 20)
        let answer = try #require(messages(shared.map(\.1)).first)
        #expect(answer.answers == [instance.pointer])
        #expect(answer.additionals == instance.uniqueRecords)
        // Asked again and again, it is sent once a second.
        var count = 0
        for _ in 0..<100 {
            count += world.receive(query(DeviceRelayService.type, .ptr)).count
            count += world.pass(100).count
        }
        #expect((9...11).contains(count))
        #expect(world.receive(query(.local(["other"]))).isEmpty && world.pass(1_000).isEmpty)
    }

    @Test func allTypesAreListed() throws {
        var world = try World()
        _ = world.pass(10_000)
        #expect(world.receive(query(DeviceRelayService.types, .ptr)).isEmpty)
        #expect(messages(world.pass(200).map(\.1)).flatMap(\.answers) == [world.responder.instance.typePointer])
    }

    @Test func knownAnswersAreNotRepeated() throws {
        var world = try World()
        _ = world.pass(10_000)
        var known = world.responder.instance.pointer
        #expect(world.receive(query(DeviceRelayService.type, .ptr, known: [known])).isEmpty)
        #expect(world.pass(2_000).isEmpty)
        // One that soon ends is.
        known.timeToLive = known.timeToLive / 2 - 1
        _ = world.receive(query(DeviceRelayService.type, .ptr, known: [known]))
        #expect(world.pass(200).count == 1)
    }

    @Test func legacyAskerGetsItsOwnAnswer() throws {
        var world = try World()
        _ = world.pass(10_000)
        var question = query(world.responder.instance.name, .srv)
        question.id = 77
        let actions = world.receive(question, isLegacy: true)
        guard case .send(let message, .asker)? = actions.first, actions.count == 1 else { return #expect(Bool(false), "\(actions)") }
        #expect(message.id == 77 && message.questions == question.questions)
        #expect(message.records.allSatisfy { $0.timeToLive <= 10 && !$0.isUnique })
        #expect(message.answers.map(\.kind) == [.srv])
    }

    @Test(arguments: [true, false]) func takenNameIsGivenUp(whileProbing: Bool) throws {
        var world = try World()
        _ = world.pass(whileProbing ? 300 : 10_000)
        let old = world.responder.instance
        var claim = DNSMessage(isResponse: true)
        claim.answers = [DNSRecord(old.name, .service(port: 1, target: .local(["x"])), timeToLive: 120, isUnique: true)]
        #expect(world.receive(claim) == [.renamed])
        #expect(world.responder.instance.labels != old.labels)
        #expect(messages(world.pass(10_000).map(\.1)).map(\.isResponse) == [false, false, false, true, true])
    }

    @Test func ownPacketsAreNoConflict() throws {
        var world = try World()
        var sent = 0
        while let next = world.responder.nextTime {
            for message in messages(world.pass(next - world.now).map(\.1)) {
                sent += 1
                #expect(world.receive(try DNSMessage(decoding: message.encoded())).isEmpty)
            }
        }
        #expect(sent == 5)
    }

    /// An attacker hears each probe, and claims its name.
    @Test func floodOfConflictsIsSlowedDown() throws {
        var world = try World()
        let end = world.now + 60_000
        var probes: [Int64] = []
        while let next = world.responder.nextTime, next < end {
            guard let probe = messages(world.pass(next - world.now).map(\.1)).first else { continue }
            probes.append(world.now)
            var claim = DNSMessage(isResponse: true)
            claim.answers = probe.questions.map { DNSRecord($0.name, .text([[120]]), timeToLive: 120, isUnique: true) }
            #expect(world.receive(claim) == [.renamed])
        }
        #expect(probes.count > 30)
        #expect(probes.allSatisfy { time in probes.count { (time..<time + 10_000).contains($0) } <= 16 })
    }

    @Test func changedTextIsAnnouncedAndNewNamesSayGoodbye() throws {
        var world = try World()
        _ = world.pass(10_000)
        var instance = world.responder.instance
        instance.text = [Array("v=1".utf8), Array("n=new".utf8)]
        var former = DNSMessage(isResponse: true)
        former.answers = world.responder.instance.uniqueRecords
        let announced = messages(world.responder.update(instance, at: world.now, using: &world.random))
        // The system may hand out late what this machine has sent before.
        #expect(world.receive(former, isOwn: true).isEmpty && world.responder.instance == instance)
        #expect(announced.flatMap(\.answers).contains { $0.content == .text(instance.text) })
        #expect(world.pass(10_000).count == 1)
        let old = instance
        instance.labels = ServiceInstance.Labels(using: &world.random)
        let goodbye = messages(world.responder.update(instance, at: world.now, using: &world.random))
        #expect(goodbye.flatMap(\.answers).allSatisfy { $0.timeToLive == 0 })
        #expect(goodbye.flatMap(\.answers).map(\.content) == ([old.pointer] + old.uniqueRecords).map(\.content))
        #expect(world.pass(10_000).count == 5)
        #expect(messages(world.responder.end()).flatMap(\.answers).allSatisfy { $0.timeToLive == 0 })
        #expect(world.receive(query(instance.name)).isEmpty && world.responder.nextTime == nil)
    }
}

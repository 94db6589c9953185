// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

@testable import RelayProtocol

@Suite struct InstanceAssemblyTests {
    private static func name(_ label: String) -> DNSName { .local([label, "_device-relay", "_tcp"]) }

    private static func address(_ text: String) throws -> IPAddress { try #require(IPAddress(parsing: text.utf8)) }

    /// A system's service with its records. It reports an answer once to each question.
    private struct System {
        private(set) var assembly = InstanceAssembly()
        private(set) var questions: Set<DNSQuestion> = []
        private(set) var found: Set<DNSName> = []
        private(set) var records: [DNSQuestion: [DNSRecord.Content]] = [:]
        var now: Int64 = 1_000

        mutating func find(_ name: DNSName, isThere: Bool = true) {
            if isThere { assembly.found(name, at: now) } else { assembly.lost(name) }
            if isThere { found.insert(name) } else { found.remove(name) }
        }

        mutating func change(_ question: DNSQuestion, _ content: DNSRecord.Content, isThere: Bool = true) {
            if isThere { records[question, default: []].append(content) } else { records[question]?.removeAll { $0 == content } }
            if questions.contains(question) { assembly.answered(question, content.encoded, isThere: isThere, at: now) }
        }

        /// What was reported is judged, and what is new is asked.
        mutating func settle() {
            for _ in 0..<4 {
                let wanted = assembly.settle()
                for question in wanted.subtracting(questions) {
                    for content in records[question] ?? [] { assembly.answered(question, content.encoded, isThere: true, at: now) }
                }
                questions = wanted
            }
        }

        mutating func keep(_ names: Set<DNSName>) { assembly.kept = names }

        /// What its records say, if each name has one of a kind.
        var expected: [MulticastBrowser.Instance] {
            found.compactMap { name -> MulticastBrowser.Instance? in
                guard case .service(let port, let host)? = records[DNSQuestion(name, .srv)]?.first,
                    case .text(let text)? = records[DNSQuestion(name, .txt)]?.first
                else { return nil }
                let addresses = [DNSRecord.Kind.a, .aaaa].flatMap { records[DNSQuestion(host, $0)] ?? [] }.compactMap { content in
                    if case .address(let address) = content { address } else { nil }
                }
                guard !addresses.isEmpty else { return nil }
                let sorted = addresses.sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
                return MulticastBrowser.Instance(name: name, port: port, text: text, addresses: sorted)
            }.sorted { $0.name < $1.name }
        }
    }

    @Test func anInstanceNeedsPlaceTextAndAddress() throws {
        var assembly = InstanceAssembly()
        let (name, host) = (Self.name("one"), DNSName.local(["host"]))
        assembly.found(name, at: 0)
        #expect(assembly.settle() == [DNSQuestion(name, .srv), DNSQuestion(name, .txt)])
        assembly.answered(DNSQuestion(name, .srv), DNSRecord.Content.service(port: 4_711, target: host).encoded, isThere: true, at: 0)
        let all = assembly.settle()
        #expect(all == [DNSQuestion(name, .srv), DNSQuestion(name, .txt), DNSQuestion(host, .a), DNSQuestion(host, .aaaa)])
        let address = try Self.address("fe80::1")
        assembly.answered(DNSQuestion(host, .aaaa), address.bytes, isThere: true, at: 0)
        #expect(assembly.settle() == all && assembly.instances.isEmpty)
        let text = [Array("v=1".utf8), [0, 255]]
        assembly.answered(DNSQuestion(name, .txt), DNSRecord.Content.text(text).encoded, isThere: true, at: 0)
        #expect(assembly.settle() == all)
        #expect(assembly.instances == [.init(name: name, port: 4_711, text: text, addresses: [address])])
        assembly.answered(DNSQuestion(host, .aaaa), address.bytes, isThere: false, at: 0)
        _ = assembly.settle()
        #expect(assembly.instances.isEmpty)
        assembly.lost(name)
        #expect(assembly.settle().isEmpty)
    }

    @Test func otherTypesAreNotTaken() {
        var assembly = InstanceAssembly()
        assembly.found(.local(["one", "_other", "_tcp"]), at: 0)
        #expect(assembly.settle().isEmpty)
    }

    /// The system may report the new content first.
    @Test func theLastContentCounts() throws {
        var assembly = InstanceAssembly()
        let question = DNSQuestion(Self.name("one"), .txt)
        assembly.found(question.name, at: 0)
        _ = assembly.settle()
        let host = DNSName.local(["host"])
        assembly.answered(DNSQuestion(question.name, .srv), DNSRecord.Content.service(port: 1, target: host).encoded, isThere: true, at: 0)
        _ = assembly.settle()
        assembly.answered(DNSQuestion(host, .a), [192, 0, 2, 1], isThere: true, at: 0)
        let texts = ["old", "new"].map { DNSRecord.Content.text([Array($0.utf8)]).encoded }
        assembly.answered(question, texts[0], isThere: true, at: 0)
        assembly.answered(question, texts[1], isThere: true, at: 0)
        assembly.answered(question, texts[0], isThere: false, at: 0)
        _ = assembly.settle()
        #expect(assembly.instances.map(\.text) == [[Array("new".utf8)]])
        assembly.answered(question, texts[1], isThere: false, at: 0)
        _ = assembly.settle()
        #expect(assembly.instances.isEmpty)
    }

    /// Whatever comes and goes between two reports, what is known is what the system has.
    @Test(arguments: 0..<20) func whatIsKnownIsWhatIsThere(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var system = System()
        let names = (0..<4).map { Self.name("instance\($0)") }
        let hosts = (0..<3).map { DNSName.local(["host\($0)"]) }
        let addresses = try ["192.0.2.1", "192.0.2.2", "2001:db8::1", "fe80::1"].map { try Self.address($0) }
        for step in 0..<2_000 {
            system.now += 500
            let name = names[Int.random(in: 0..<names.count, using: &random)]
            switch Int.random(in: 0..<5, using: &random) {
            case 0: system.find(name, isThere: !system.found.contains(name))
            case 1:
                let host = hosts[Int.random(in: 0..<hosts.count, using: &random)]
                replace(DNSQuestion(name, .srv), .service(port: UInt16.random(in: 1...9, using: &random), target: host))
            case 2: replace(DNSQuestion(name, .txt), .text([[UInt8.random(in: 0...9, using: &random)]]))
            case 3:
                let host = hosts[Int.random(in: 0..<hosts.count, using: &random)]
                let content = DNSRecord.Content.address(addresses[Int.random(in: 0..<addresses.count, using: &random)])
                let question = DNSQuestion(host, DNSRecord(host, content, timeToLive: 1, isUnique: true).kind)
                system.change(question, content, isThere: !(system.records[question] ?? []).contains(content))
            default:
                system.settle()
                #expect(system.assembly.instances == system.expected, "seed \(seed), step \(step)")
            }
        }

        func replace(_ question: DNSQuestion, _ content: DNSRecord.Content) {
            let old = system.records[question]?.first
            guard old != content else { return system.change(question, content, isThere: false) }
            let newFirst = old != nil && Bool.random(using: &random)
            if let old, !newFirst { system.change(question, old, isThere: false) }
            system.change(question, content)
            if let old, newFirst { system.change(question, old, isThere: false) }
        }
    }

    // MARK: Limits

    @Test func theOldestGoesFirstUnlessItIsKept() {
        var assembly = InstanceAssembly()
        let names = (0..<1_000).map { Self.name("instance\($0)") }
        assembly.kept = [names[0]]
        for (index, name) in names.enumerated() {
            assembly.found(name, at: Int64(index) * 1_000)
            if index % 10 == 9 { _ = assembly.settle() }
        }
        let left = Set(assembly.settle().map(\.name))
        #expect(left == Set([names[0]] + names.suffix(MulticastBrowser.maximumInstances - 1)))
    }

    @Test func aFloodOfInstancesIsTakenSlowly() {
        var assembly = InstanceAssembly()
        let names = (0..<1_000).map { Self.name("instance\($0)") }
        for name in names { assembly.found(name, at: 0) }
        #expect(Set(assembly.settle().map(\.name)) == Set(names.prefix(MulticastBrowser.newOfAllPerSecond)))
        // The next search reports all again.
        for name in names.suffix(100) { assembly.found(name, at: 1_000) }
        #expect(Set(assembly.settle().map(\.name)).isSuperset(of: names.suffix(100)))
    }

    @Test func anInstanceThatChangesTooFastIsNotShown() throws {
        var system = System()
        let (name, host) = (Self.name("one"), DNSName.local(["host"]))
        system.find(name)
        system.change(DNSQuestion(name, .srv), .service(port: 1, target: host))
        system.change(DNSQuestion(host, .a), .address(try Self.address("192.0.2.1")))
        system.settle()
        for number in 0..<UInt8(MulticastBrowser.newPerSecond) { system.change(DNSQuestion(name, .txt), .text([[number]])) }
        system.settle()
        #expect(system.assembly.instances.isEmpty)
        system.now += 1_000
        system.change(DNSQuestion(name, .txt), .text([[255]]))
        system.settle()
        #expect(system.assembly.instances.map(\.text) == [[[255]]])
    }

    @Test func aHostHasFewAddresses() throws {
        var system = System()
        let (name, host) = (Self.name("one"), DNSName.local(["host"]))
        system.find(name)
        system.change(DNSQuestion(name, .srv), .service(port: 1, target: host))
        system.change(DNSQuestion(name, .txt), .text([[]]))
        for number in 1...20 { system.change(DNSQuestion(host, .a), .address(try Self.address("192.0.2.\(number)"))) }
        system.settle()
        #expect(system.assembly.instances.map(\.addresses.count) == [MulticastBrowser.maximumAddresses])
    }

    @Test func nonsenseIsIgnored() {
        var random = SeededGenerator(seed: 7)
        var assembly = InstanceAssembly()
        let name = Self.name("one")
        assembly.found(name, at: 0)
        for step in 0..<20_000 {
            let count = Int.random(in: 0...40, using: &random)
            let data = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            let kinds: [DNSRecord.Kind] = [.srv, .txt, .a, .aaaa, .ptr, .any]
            let question = DNSQuestion(name, kinds[step % kinds.count])
            assembly.answered(question, data, isThere: step % 7 != 0, at: Int64(step) * 100)
            for question in assembly.settle() where question.name != name {
                assembly.answered(question, data, isThere: true, at: Int64(step) * 100)
            }
        }
        // A pointer has nothing to lead to, and nothing may follow a name.
        for data: [UInt8] in [[0, 0, 0, 0, 0, 1, 0xC0, 0x06], [0, 0, 0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 1], []] {
            #expect(throws: DNSError.self) { try DNSRecord.Content(decoding: data, of: .srv) }
        }
        #expect(throws: DNSError.tooLong) { try DNSRecord.Content(decoding: Array(repeating: 0, count: 65_535), of: .txt) }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import RelayTesting
import Testing

@testable import RelayProtocol

/// Runs the fuzzers' seeds and all inputs that once failed through the decoders of a normal build.
@Suite struct FuzzCorpusTests {
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../FuzzTesting")
        .standardizedFileURL

    private func inputs(_ target: String) throws -> [(name: String, bytes: [UInt8])] {
        try ["Corpus", "FailCases"].flatMap { kind in
            let folder = Self.folder.appending(path: "\(kind)/\(target)")
            let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
            return try names.sorted().map { (name: $0, bytes: [UInt8](try Data(contentsOf: folder.appending(path: $0)))) }
        }
    }

    @Test func cborInputsAreReadOrRejected() throws {
        let inputs = try inputs("FuzzCBOR")
        let messages = inputs.compactMap { try? ValueSet(decoding: $0.bytes) }
        for message in messages { #expect(try ValueSet(decoding: message.encodedBytes()).encodedBytes() == message.encodedBytes()) }
        #expect(!messages.isEmpty)
    }

    @Test func jsonInputsAreReadOrRejected() throws {
        let messages = try inputs("FuzzJSON").compactMap { try? ValueSet(json: $0.bytes) }
        for message in messages { #expect(try ValueSet(json: message.json()).json() == message.json()) }
        #expect(!messages.isEmpty)
    }

    @Test func controlInputsAreReadOrRejected() throws {
        let frames = try inputs("FuzzControl").map { ByteBuffer(bytes: $0.bytes) }
        let endpointMessages = frames.compactMap { try? EndpointMessage.decode(from: $0, limits: Limits()) }
        let relayMessages = frames.compactMap { try? RelayMessage.decode(from: $0, limits: Limits()) }
        #expect(!endpointMessages.isEmpty && !relayMessages.isEmpty)
    }

    @Test func sessionInputsAreReadOrRejected() throws {
        var frames = 0
        for (_, bytes) in try inputs("FuzzSession") {
            var decoder = SessionFrameDecoder()
            decoder.append(ByteBuffer(bytes: bytes.dropFirst()))
            while let frame = try? decoder.next() { frames += frame.size > 0 ? 1 : 0 }
        }
        #expect(frames > 0)
    }

    @Test func sealedInputsAreReadOrRejected() throws {
        let inputs = try inputs("FuzzSealed").map(\.bytes)
        #expect(inputs.contains { (try? SealedCommand(decoding: $0)) != nil })
        #expect(inputs.contains { (try? SealedReply(decoding: $0)) != nil })
        #expect(inputs.contains { (try? Signed<EndpointRecord>(verifying: $0)) != nil })
        #expect(inputs.contains { (try? Unverified<Voucher>(decoding: $0)) != nil })
        #expect(inputs.contains { (try? Unverified<Revocation>(decoding: $0)) != nil })
        #expect(inputs.contains { (try? JoinLink(parsing: String(decoding: $0, as: UTF8.self))) != nil })
    }

    @Test func nearbyInputsAreReadOrRejected() throws {
        var browser = MulticastBrowser()
        let neighbour = try #require(IPAddress(bytes: [192, 0, 2, 7]))
        for (_, bytes) in try inputs("FuzzNearby") where bytes[0] < 0xFD {
            let size = Int(bytes[1]) << 8 | Int(bytes[2])
            guard let message = try? DNSMessage(decoding: Array(bytes.dropFirst(3).prefix(size))) else { continue }
            #expect(try DNSMessage(decoding: message.encoded()) == message)
            browser.received(message, from: neighbour, at: 0)
        }
        #expect(browser.instances.contains { Advertisement(strings: $0.text) != nil })
        let told = try inputs("FuzzNearby").filter { $0.1.first == 0xFD }.map { Array($0.1.dropFirst()) }
        #expect(told.contains { HostCandidates(content: $0)?.addresses.count == 2 })
    }

    @Test func pairingInputsAreReadOrRejected() throws {
        var (links, codes, requests, answers) = (0, 0, 0, 0)
        for (_, bytes) in try inputs("FuzzPairing") {
            let text = String(decoding: bytes.dropFirst(), as: UTF8.self)
            switch bytes.first {
            case 0xFF: links += (try? PairingLink(parsing: text)) == nil ? 0 : 1
            case 0xFE: codes += PairingCode(parsing: text) == nil ? 0 : 1
            default:
                guard bytes.count > 3, let message = try? ValueSet(decoding: Array(bytes.dropFirst(3).prefix(Int(bytes[2])))) else {
                    continue
                }
                requests += (try? ValueSetDecoder().decode(PairingRequest.self, from: message)) == nil ? 0 : 1
                answers += (try? ValueSetDecoder().decode(PairingAnswer.self, from: message)) == nil ? 0 : 1
            }
        }
        #expect(links > 0 && codes > 0 && requests > 0 && answers > 0)
    }

    @Test func shareInputsAreReadOrRejected() throws {
        var (frames, offers) = (0, 0)
        for (_, bytes) in try inputs("FuzzShare") {
            if bytes.first == 0xFF {
                let page = try ValueSetDecoder().decode(ShareOffer.Page.self, from: ValueSet(decoding: Array(bytes.dropFirst())))
                var collector = ShareOfferCollector()
                offers += (try? collector.add(page)) == nil ? 0 : 1
                continue
            }
            var decoder = BulkFrameDecoder()
            decoder.append(ByteBuffer(bytes: bytes.dropFirst()))
            while (try? decoder.next()) != nil { frames += 1 }
        }
        #expect(frames > 0 && offers > 0)
    }

    /// Rewrites the seeds after a change of the format: `DEVICE_RELAY_WRITE_CORPUS=1 swift test --filter
    /// RelayProtocolTests.FuzzCorpusTests`.
    @Test(.enabled(if: ProcessInfo.processInfo.environment["DEVICE_RELAY_WRITE_CORPUS"] != nil, "only when the seeds are wanted anew"))
    func writeSeeds() throws {
        for seed in 0..<12 as Range<UInt64> {
            var random = SeededGenerator(seed: seed)
            let message = ValueSet.random(depth: 3, using: &random)
            try write(try message.encodedBytes(), "FuzzCBOR", "message-\(seed)")
            try write(Array(try message.json().utf8), "FuzzJSON", "message-\(seed)")
        }
        for (index, message) in ControlSamples.fromEndpoint.enumerated() {
            try write(Array(buffer: try message.encode()), "FuzzControl", "endpoint-\(index)")
        }
        for (index, message) in ControlSamples.fromRelay.enumerated() {
            try write(Array(buffer: try message.encode()), "FuzzControl", "relay-\(index)")
        }
        // The first byte selects the role and the cut. After the settings follow all frames that a peer in either role may send.
        for role in 0...1 as ClosedRange<UInt8> {
            for (index, frame) in sampleSessionFrames.enumerated() {
                let frames = [SessionFrame(.settings(SessionSettings())), frame]
                try write([role] + Array(buffer: encodedSession(frames)), "FuzzSession", "frame-\(role)-\(index)")
            }
            try write([role] + Array(buffer: encodedSession(sampleSessionFrames)), "FuzzSession", "all-\(role)")
            // Half of the bytes come on another stream, which begins with a move, or with its answer.
            for answer in 0...1 {
                var settings = SessionSettings()
                settings.features = ["move"]
                settings.session = SessionID(bytes: Array(0..<16))
                let first = [SessionFrame(.settings(settings))]
                settings.move = SessionMove(number: 1, received: 0)
                let frame = answer == 0 ? SessionFrame(.settings(settings)) : SessionFrame(.moved(0))
                let halves = [first, [frame, SessionFrame(.ack(0))]].map { frames in
                    let bytes = Array(buffer: encodedSession(frames))
                    return bytes + Array(buffer: rawSessionFrame(0x80, Array(repeating: 0, count: 498 - bytes.count)))
                }
                try write([16 | role] + halves[0] + halves[1], "FuzzSession", "move-\(role)-\(answer)")
            }
        }
        var random = SeededGenerator(seed: 1)
        let (near, far) = (TestEndpoint(), TestEndpoint())
        let keys = try PairKeys(P256LinkKey(), of: near.id, with: P256LinkKey().publicKey, of: far.id)
        let advertisement = Advertisement(
            of: near.id,
            hour: 500_000,
            for: [keys],
            visible: .init(name: "PC", kind: "desktop", mode: .pair),
            using: &random
        )
        let instance = ServiceInstance(
            ServiceInstance.Labels(using: &random),
            port: 4_711,
            text: advertisement.strings,
            addresses: ["192.0.2.1", "fe80::1"].compactMap { IPAddress(parsing: $0.utf8) }
        )
        var announcement = DNSMessage(isResponse: true)
        announcement.answers = [instance.pointer] + instance.uniqueRecords
        var question = DNSMessage(isResponse: false)
        question.questions = [DNSQuestion(DeviceRelayService.type, .ptr), DNSQuestion(instance.name, .srv)]
        question.answers = [instance.pointer]
        for (name, message) in [("announcement", announcement), ("question", question)] {
            let encoded = message.encoded()
            let packet = [UInt8(encoded.count >> 8), UInt8(encoded.count & 0xFF)] + encoded
            try write([0] + packet + packet, "FuzzNearby", name)
        }
        let challenge = Knock.magic + [UInt8](repeating: 7, count: 16)
        try write([0xFF] + challenge + [0], "FuzzNearby", "challenge")
        try write([0xFE] + Knock.magic + [0] + [UInt8](repeating: 7, count: 40), "FuzzNearby", "knock")
        for vector in try VectorFolder.read(NearbyVectors.self, "nearby").pairs.prefix(1).flatMap(\.candidates) {
            try write([0xFD] + hex(vector.content), "FuzzNearby", "candidates-\(vector.port)")
            try write([0xFD] + hex(vector.sealed), "FuzzNearby", "sealed-\(vector.port)")
        }
        try writePairingSeeds()
        var stream = ByteBuffer()
        BulkFrame.data(entry: 0, offset: 0, ByteBuffer(bytes: [1, 2, 3])).write(to: &stream)
        BulkFrame.end(entry: 0, size: 3, Digest256(hashing: [1, 2, 3])).write(to: &stream)
        BulkFrame.abandoned(entry: 1).write(to: &stream)
        BulkFrame.complete.write(to: &stream)
        for piece in [0, 6, 254] as [UInt8] { try write([piece] + Array(buffer: stream), "FuzzShare", "stream-\(piece)") }
        let page = ShareOffer.Page(
            id: [UInt8](repeating: 1, count: ShareLimits.idBytes),
            entries: [.init(path: ["F"], size: nil, modified: 0), .init(path: ["F", "a.txt"], size: 3, modified: 1)],
            notes: [.init(.text, "hello"), .init(.uri, "https://a.example/")],
            more: false
        )
        try write([0xFF] + ValueSetEncoder().encode(page).encodedBytes(), "FuzzShare", "offer")
        let (sender, target) = (TestEndpoint(), TestEndpoint())
        for kind in [CommandHeader.Kind.launch, .message] {
            let header = CommandHeader(
                id: CommandIDGenerator.first(now: 1_793_000_000_000),
                account: "account-1",
                relay: RelayID(P256SigningKey().publicKey),
                sender: sender.id,
                target: target.id,
                senderApp: nil,
                targetApp: "app",
                keyID: target.agreementKey.publicKey.keyID,
                kind: kind,
                number: 1,
                created: 1_793_000_000_000,
                expires: 1_793_000_300_000
            )
            let body: CommandBody = kind == .launch ? .launch(.init(uri: try LaunchURI("film:42"))) : .message(service: "a", ["b": 1])
            let command = try SealedCommand(body, header: header, target: target.agreementKey.publicKey, key: sender.identityKey)
            try write(command.encoded, "FuzzSealed", "command-\(kind)")
            try write(try body.encodedBytes(), "FuzzSealed", "body-\(kind)")
            let reply = try SealedReply(["a": 1], to: command, sender: sender.agreementKey.publicKey)
            try write(reply.encoded, "FuzzSealed", "reply-\(kind)")
            let receipt = try Signed(
                CommandReceipt(for: command.descriptor, outcome: .succeeded, reply: reply.encoded, time: 1),
                key: target.identityKey
            )
            try write(receipt.encoded, "FuzzSealed", "receipt-\(kind)")
        }
        for (index, vector) in try VectorFolder.read(IdentityVectors.self, "identity").valid.enumerated() {
            try write(hex(vector.encoded), "FuzzSealed", "\(vector.kind)-\(index)")
        }
        for (index, vector) in try VectorFolder.read(InvitationVectors.self, "invitations").invitations.enumerated() {
            try write(Array(vector.link.utf8), "FuzzSealed", "link-\(index)")
        }
        for (index, vector) in try VectorFolder.read(ControlVectors.self, "control").valid.enumerated() {
            try write(Array(vector.frame.utf8), "FuzzControl", "vector-\(index)")
        }
        try write(try sender.signedRecord().encoded, "FuzzSealed", "record")
        try write(try Signed(sender.registration(), key: sender.identityKey).encoded, "FuzzSealed", "registration")
    }

    private func writePairingSeeds() throws {
        for (index, vector) in try VectorFolder.read(PairingVectors.self, "pairing").links.enumerated() {
            try write([0xFF] + Array(vector.link.utf8), "FuzzPairing", "link-\(index)")
        }
        try write([0xFE] + Array("0123-4567".utf8), "FuzzPairing", "code")
        func encoded(_ messages: [some Encodable]) throws -> [UInt8] {
            try messages.flatMap { message in
                let bytes = try ValueSetEncoder().encode(message).encodedBytes()
                return [UInt8(bytes.count >> 8), UInt8(bytes.count & 0xFF)] + bytes
            }
        }
        let value = [UInt8](repeating: 7, count: PairingHash.byteCount)
        let requests = [PairingRequest(.commit, value), PairingRequest(.reveal, value), PairingRequest(.prove, value)]
        for pause in [0, 200] as [UInt8] { try write([pause] + encoded(requests + requests), "FuzzPairing", "requests-\(pause)") }
        let answers = [PairingAnswer(.accepted, value), PairingAnswer(.accepted, value), PairingAnswer(.busy)]
        try write([0xFD] + encoded(answers), "FuzzPairing", "answers")
    }

    private func write(_ bytes: [UInt8], _ target: String, _ name: String) throws {
        let folder = Self.folder.appending(path: "Corpus/\(target)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try Data(bytes).write(to: folder.appending(path: name))
    }
}

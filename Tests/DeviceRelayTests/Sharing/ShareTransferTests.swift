// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import RelayProtocol
import RelayStorage
import RelayTesting
import Testing

@testable import DeviceRelay

/// The two ends of a transfer, without a network between them.
@Suite struct ShareTransferTests {
    private let home: TemporaryDirectory
    private var from: String { home.path + "/from" }
    private var into: String { home.path + "/into" }

    init() throws {
        home = try TemporaryDirectory()
        try FileManager.default.createDirectory(atPath: home.path + "/from", withIntermediateDirectories: true)
    }

    private func write(_ content: [UInt8], to path: String) throws {
        let url = URL(filePath: "\(from)/\(path)")
        try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(content).write(to: url)
    }

    private func collection(_ names: String...) throws -> ShareCollection {
        try ShareCollection(names.map { .file(atPath: "\(from)/\($0)") })
    }

    private static func offer(_ collection: ShareCollection) throws -> ShareOffer {
        var (collector, offer) = (ShareOfferCollector(), ShareOffer?.none)
        let id = [UInt8](repeating: 1, count: 16)
        for page in try ShareOffer.pages(id: id, entries: collection.entries.map(\.offered), notes: []) { offer = try collector.add(page) }
        return try #require(offer)
    }

    private func sink(_ offer: ShareOffer, from sender: String = "desk") -> ShareSink {
        ShareSink(offer, from: sender, to: into, room: ShareRoom(reserve: 0))
    }

    private static func frames(_ source: ShareSource) async throws -> [BulkFrame] {
        var (decoder, frames) = (BulkFrameDecoder(), [BulkFrame]())
        while let bytes = await source.read() {
            decoder.append(bytes)
            while let frame = try decoder.next() { frames.append(frame) }
        }
        return frames
    }

    /// What a receiver says that it has, by entry.
    private static func source(_ collection: ShareCollection, have: [ShareMessages.Have]) -> ShareSource {
        ShareSource(collection, have: Dictionary(have.map { (Int($0.entry), $0) }, uniquingKeysWith: { $1 }))
    }

    private static func dataBytes(_ frames: [BulkFrame]) -> Int {
        frames.reduce(0) { if case .data(_, _, let data) = $1 { $0 + data.readableBytes } else { $0 } }
    }

    /// Sends everything in one piece.
    private func transfer(_ collection: ShareCollection) async throws -> (ShareSink.Outcome, sent: Int) {
        let sink = try sink(Self.offer(collection))
        let have = try await sink.prepare()
        let frames = try await Self.frames(Self.source(collection, have: have))
        try await sink.take(frames)
        let response = try await sink.finish()
        await sink.close()
        return (response, Self.dataBytes(frames))
    }

    private func content(_ path: String) -> [UInt8]? { FileManager.default.contents(atPath: "\(into)/\(path)").map { [UInt8]($0) } }

    private func names() throws -> [String] { try FileManager.default.subpathsOfDirectory(atPath: into).sorted() }

    // MARK: Whole transfers

    @Test func filesAndFoldersArriveUnchanged() async throws {
        try write(Array("hello".utf8), to: "a.txt")
        try write([], to: "Photos/empty")
        try write((0..<700_001).map { UInt8(truncatingIfNeeded: $0) }, to: "Photos/2026/Rome è bella.jpg")
        try FileManager.default.createDirectory(atPath: "\(from)/Photos/nothing", withIntermediateDirectories: true)
        let time = Date(timeIntervalSince1970: 1_700_000_000.123)
        try FileManager.default.setAttributes([.modificationDate: time], ofItemAtPath: "\(from)/a.txt")
        let (response, sent) = try await transfer(collection("a.txt", "Photos"))
        #expect(response.names.map { $0?.text } == ["a.txt", "Photos"] && response.failures.isEmpty && sent == 700_006)
        #expect(try names() == ["Photos", "Photos/2026", "Photos/2026/Rome è bella.jpg", "Photos/empty", "Photos/nothing", "a.txt"])
        #expect(content("a.txt") == Array("hello".utf8))
        #expect(content("Photos/2026/Rome è bella.jpg")?.count == 700_001)
        let facts = try FileManager.default.attributesOfItem(atPath: "\(into)/a.txt")
        #expect(abs((facts[.modificationDate] as? Date ?? .distantPast).timeIntervalSince(time)) < 0.001)
        #expect((facts[.posixPermissions] as? NSNumber)?.intValue == Int(OpenFile.newFilePermissions))
    }

    @Test func nothingIsReplacedAndNothingIsSentTwice() async throws {
        try write(Array("one".utf8), to: "a.txt")
        #expect(try await transfer(collection("a.txt")).0.names.map { $0?.text } == ["a.txt"])
        let again = try await transfer(collection("a.txt"))
        #expect(again.0.names.map { $0?.text } == ["a.txt"] && again.sent == 0)
        try write(Array("two and more".utf8), to: "a.txt")
        #expect(try await transfer(collection("a.txt")).0.names.map { $0?.text } == ["a (2).txt"])
        try FileManager.default.createDirectory(atPath: "\(into)/F", withIntermediateDirectories: true)
        try write([1], to: "F/x")
        #expect(try await transfer(collection("F")).0.names.map { $0?.text } == ["F (2)"])
        #expect(try names() == ["F", "F (2)", "F (2)/x", "a (2).txt", "a.txt"])
        #expect(content("a.txt") == Array("one".utf8))
    }

    /// A file of the same size and time, but with another content, is another file.
    @Test func fileOfEqualSizeAndTimeIsComparedByContent() async throws {
        try write(Array("one".utf8), to: "a.txt")
        #expect(try await transfer(collection("a.txt")).0.names.map { $0?.text } == ["a.txt"])
        let time = try FileManager.default.attributesOfItem(atPath: "\(from)/a.txt")[.modificationDate]
        try write(Array("two".utf8), to: "a.txt")
        try FileManager.default.setAttributes([.modificationDate: try #require(time)], ofItemAtPath: "\(from)/a.txt")
        let again = try await transfer(collection("a.txt"))
        #expect(again.0.names.map { $0?.text } == ["a (2).txt"] && again.sent == 3)
        #expect(content("a.txt") == Array("one".utf8) && content("a (2).txt") == Array("two".utf8))
    }

    @Test func linksAndSpecialFilesAreLeftOut() throws {
        try write([1], to: "F/x")
        try FileManager.default.createSymbolicLink(atPath: "\(from)/F/link", withDestinationPath: "/etc/passwd")
        #expect(mkfifo("\(from)/F/pipe", 0o600) == 0)
        try write([1], to: "F/.y.relay-part")
        let collection = try collection("F")
        #expect(collection.entries.map(\.offered.path) == [["F"], ["F", "x"]])
        #expect(collection.leftOut.map(\.path) == ["F/link", "F/pipe"])
        #expect(collection.leftOut.map(\.reason) == [.link, .special])
        // A link that a person names is what it leads to.
        try FileManager.default.createSymbolicLink(atPath: "\(from)/named", withDestinationPath: "F/x")
        #expect(try self.collection("named").entries.map(\.offered.path) == [["named"]])
        #expect(throws: NearShareError(.fileNotFound, "")) { try self.collection("missing") }
        #expect(throws: NearShareError(.fileNotReadable, "")) { try self.collection("F/pipe") }
        #expect(throws: NearShareError(.failed, "")) { try self.collection("F", "F") }
    }

    @Test func fileThatChangesMeanwhileIsLeftOut() async throws {
        try write([UInt8](repeating: 1, count: 600_000), to: "F/changes")
        try write([2], to: "F/stays")
        let collection = try collection("F")
        let sink = try sink(Self.offer(collection))
        _ = try await sink.prepare()
        let source = Self.source(collection, have: [])
        var decoder = BulkFrameDecoder()
        decoder.append(try #require(await source.read()))
        while let frame = try decoder.next() { try await sink.take([frame]) }
        try write([UInt8](repeating: 3, count: 600_000), to: "F/changes")
        try await sink.take(try await Self.frames(source))
        let response = try await sink.finish()
        #expect(response.failures.map(\.problem) == [.abandoned])
        #expect(try names() == ["F", "F/stays"])
    }

    // MARK: Interrupted transfers

    /// A tree of files is cut after any number of frames, any number of times, and always ends as what was sent.
    @Test func cutTransfersContinue() async throws {
        var random = SeededGenerator(seed: Sweep.seed)
        for round in 0..<Sweep.count(10, full: 300) {
            let top = "T\(round)"
            for number in 0..<Int.random(in: 1...8, using: &random) {
                let depth = (0..<Int.random(in: 0...2, using: &random)).map { "d\($0)/" }.joined()
                let size = [0, 1, 100, 130_000, 262_144, 600_000].randomElement(using: &random) ?? 1
                try write(random.bytes(size), to: "\(top)/\(depth)f\(number)")
            }
            let collection = try collection(top)
            let offer = try Self.offer(collection)
            var sent = 0
            while true {
                let sink = sink(offer)
                let frames = try await Self.frames(Self.source(collection, have: try await sink.prepare()))
                let cut = random.oneIn(3) ? frames.count : Int.random(in: 0...frames.count, using: &random)
                try await sink.take(Array(frames[..<cut]))
                sent += Self.dataBytes(Array(frames[..<cut]))
                if cut == frames.count {
                    #expect(try await sink.finish().names.map { $0?.text } == [top])
                    await sink.close()
                    break
                }
                await sink.close()
                // What is incomplete has no name of its own.
                #expect(!FileManager.default.fileExists(atPath: "\(into)/\(top)"))
            }
            for file in try FileManager.default.subpathsOfDirectory(atPath: "\(from)/\(top)") {
                #expect(content("\(top)/\(file)") == FileManager.default.contents(atPath: "\(from)/\(top)/\(file)").map { [UInt8]($0) })
            }
            #expect(sent == Int(offer.bytes), "no byte is sent twice, seed \(Sweep.seed)")
            #expect(try names().allSatisfy { !$0.contains("relay-part") })
        }
    }

    /// A child process has copies of all descriptors until its program starts. The next attempt goes on all the same.
    @Test func cutTransferContinuesWhileAChildProcessStarts() async throws {
        try write([UInt8](repeating: 1, count: 600_000), to: "a")
        let collection = try collection("a")
        let first = try sink(Self.offer(collection))
        try await first.take(Array(try await Self.frames(Self.source(collection, have: try await first.prepare())).prefix(1)))
        let place = try #require(FileManager.default.contentsOfDirectory(atPath: into).first)
        let copies = DescriptorCopies(of: "\(into)/\(place)")
        // A transfer may have many places.
        #expect(copies.count == 1)
        await first.close()
        let (_, sent) = try await transfer(collection)
        #expect(sent < 600_000)
        #expect(try names() == ["a"])
        withExtendedLifetime(copies) {}
    }

    /// A part may be longer than the file that is sent now.
    @Test(arguments: [0, 1, 100, 300_000]) func partOfALongerFileIsCut(size: Int) async throws {
        for path in ["a", "F/a"] {
            let top = path.split(separator: "/").first.map(String.init) ?? path
            try write([UInt8](repeating: 1, count: 600_000), to: path)
            let long = try collection(top)
            let first = try sink(Self.offer(long))
            let frames = try await Self.frames(Self.source(long, have: try await first.prepare()))
            try await first.take(Array(frames.dropLast()))
            await first.close()
            try write([UInt8](repeating: 2, count: size), to: path)
            #expect(try await transfer(collection(top)).0.failures.isEmpty)
            #expect(content(path) == [UInt8](repeating: 2, count: size))
        }
    }

    @Test func damagedPartIsSentAgain() async throws {
        try write([UInt8](repeating: 1, count: 600_000), to: "a")
        let collection = try collection("a")
        let offer = try Self.offer(collection)
        let first = sink(offer)
        let frames = try await Self.frames(Self.source(collection, have: try await first.prepare()))
        try await first.take(Array(frames[..<2]))
        await first.close()
        let part = try #require(try names().first { $0.hasSuffix("/a") })
        let handle = try FileHandle(forWritingTo: URL(filePath: "\(into)/\(part)"))
        try handle.write(contentsOf: [9])
        try handle.close()
        #expect(try await transfer(collection).sent == 600_000)
        #expect(content("a") == [UInt8](repeating: 1, count: 600_000))
    }

    @Test func partsOfOtherSendersAndRunningTransfersStay() async throws {
        try write([UInt8](repeating: 1, count: 600_000), to: "a")
        let collection = try collection("a")
        let offer = try Self.offer(collection)
        let frames = try await Self.frames(Self.source(collection, have: []))
        // Two at once of one sender, and one of another.
        let sinks = [sink(offer), sink(offer), sink(offer, from: "phone")]
        for sink in sinks {
            #expect(try await sink.prepare().isEmpty)
            try await sink.take(Array(frames[..<1]))
        }
        var names: [String] = []
        for sink in sinks {
            try await sink.take(Array(frames[1...]))
            names += try await sink.finish().names.compactMap { $0?.text }
            await sink.close()
        }
        #expect(names == ["a", "a (2)", "a (3)"])
        #expect(try self.names() == ["a", "a (2)", "a (3)"])
    }

    @Test func abandonedPartsGo() async throws {
        try write([UInt8](repeating: 1, count: 600_000), to: "a")
        let collection = try collection("a")
        let offer = try Self.offer(collection)
        let frames = try await Self.frames(Self.source(collection, have: []))
        // The last one still runs.
        let senders = ["recent", "abandoned", "running"]
        let sinks = senders.map { sink(offer, from: $0) }
        var places: [String: String] = [:]
        for (sender, sink) in zip(senders, sinks) {
            let before = Set((try? FileManager.default.contentsOfDirectory(atPath: into)) ?? [])
            _ = try await sink.prepare()
            try await sink.take(Array(frames[..<1]))
            if sender != "running" { await sink.close() }
            places[sender] = try Set(FileManager.default.contentsOfDirectory(atPath: into)).subtracting(before).first
        }
        // Others have such names too.
        try FileManager.default.createDirectory(atPath: into + "/.theirs.relay-part", withIntermediateDirectories: false)
        try Data([1]).write(to: URL(filePath: into + "/.b.relay-part"))
        let old = [places["abandoned"], places["running"], ".theirs.relay-part", ".b.relay-part"]
        for name in old.compactMap(\.self) {
            try FileManager.default.setAttributes([.modificationDate: Date.now - 15 * 86_400], ofItemAtPath: into + "/" + name)
        }
        let next = sink(offer, from: "next")
        _ = try await next.prepare()
        await next.close()
        var left = Set(try FileManager.default.contentsOfDirectory(atPath: into))
        #expect(left.remove(places["abandoned"] ?? "") == nil)
        for name in [places["recent"], places["running"], ".theirs.relay-part", ".b.relay-part"] { #expect(left.remove(name ?? "") != nil) }
        #expect(left.isEmpty)
        await sinks[2].close()
    }

    /// What an earlier offer had and this one has not is gone.
    @Test func partOfAnotherContentLeavesNothing() async throws {
        try write([1], to: "F/old")
        try write([2], to: "F/sub/old")
        let before = try collection("F")
        let first = try sink(Self.offer(before))
        let have = try await first.prepare()
        try await first.take(try await Self.frames(Self.source(before, have: have)))
        await first.close()
        try FileManager.default.removeItem(atPath: "\(from)/F")
        try write([3], to: "F/new")
        try write([4], to: "F/sub")
        #expect(try await transfer(collection("F")).0.failures.isEmpty)
        #expect(try names() == ["F", "F/new", "F/sub"])
        #expect(content("F/sub") == [4])
    }

    // MARK: A sender that lies

    @Test func framesThatAreNotOfTheOfferEndTheTransfer() async throws {
        let files = [ShareOffer.RawEntry(path: ["a"], size: 4, modified: 0), .init(path: ["F"], size: nil, modified: 0)]
        var collector = ShareOfferCollector()
        let page = ShareOffer.Page(id: [UInt8](repeating: 1, count: 16), entries: files, notes: [], more: false)
        let offer = try #require(try collector.add(page))
        let bytes = { ByteBuffer(bytes: [UInt8](repeating: 1, count: $0)) }
        let digest = Digest256(hashing: [1, 1, 1, 1])
        let attacks: [[BulkFrame]] = [
            [.data(entry: 2, offset: 0, bytes(1))], [.data(entry: .max, offset: 0, bytes(1))], [.data(entry: 1, offset: 0, bytes(1))],
            [.data(entry: 0, offset: 0, bytes(5))], [.data(entry: 0, offset: 1, bytes(1))], [.data(entry: 0, offset: .max, bytes(1))],
            [.data(entry: 0, offset: 1 << 63, bytes(1))], [.end(entry: 1, size: 0, digest)], [.end(entry: 0, size: 5, digest)],
            [.end(entry: 7, size: 4, digest)], [.abandoned(entry: 1)], [.abandoned(entry: .max)],
            [.data(entry: 0, offset: 0, bytes(4)), .end(entry: 0, size: 4, digest), .data(entry: 0, offset: 0, bytes(4))],
            [.data(entry: 0, offset: 0, bytes(4)), .end(entry: 0, size: 4, digest), .end(entry: 0, size: 4, digest)],
        ]
        for (number, frames) in attacks.enumerated() {
            let sink = sink(offer, from: "liar \(number)")
            _ = try await sink.prepare()
            await #expect("attack \(number)") { try await sink.take(frames) } throws: { ($0 as? ShareFailure)?.problem == .invalid }
            await sink.close()
        }
        let damaged: [[BulkFrame]] = [
            [.end(entry: 0, size: 4, digest)], [.data(entry: 0, offset: 0, bytes(3)), .end(entry: 0, size: 4, digest)],
            [.data(entry: 0, offset: 0, bytes(4)), .end(entry: 0, size: 4, Digest256(hashing: []))],
        ]
        for (number, frames) in damaged.enumerated() {
            let sink = sink(offer, from: "careless \(number)")
            _ = try await sink.prepare()
            try await sink.take(frames)
            #expect(try await sink.finish().failures.map(\.problem) == [.damaged])
            await sink.close()
        }
        // Not all was sent.
        let sink = sink(offer, from: "silent")
        _ = try await sink.prepare()
        await #expect { try await sink.finish() } throws: { ($0 as? ShareFailure)?.problem == .invalid }
        await sink.close()
        #expect(!FileManager.default.fileExists(atPath: "\(into)/a"))
    }

    /// A top entry that gets no name does not stop the others, and a file that is gone is not reported as there.
    @Test func eachTopEntryHasItsOwnEnd() async throws {
        let long = String(repeating: "n", count: 255)
        try write([1], to: "first")
        try write([2], to: long)
        try write([3], to: "gone")
        #expect(try await transfer(collection("gone")).0.names.map { $0?.text } == ["gone"])
        try FileManager.default.createDirectory(atPath: "\(into)/\(long)", withIntermediateDirectories: true)
        let collection = try collection("first", long, "gone")
        let sink = try sink(Self.offer(collection))
        let frames = try await Self.frames(Self.source(collection, have: try await sink.prepare()))
        try await sink.take(frames)
        try FileManager.default.removeItem(atPath: "\(into)/gone")
        let response = try await sink.finish()
        #expect(response.names.map { $0?.text } == ["first", nil, nil])
        #expect(response.failures.map(\.entry) == [1, 2] && response.failures.map(\.problem) == [.nameNotPossible, .notWritable])
        await sink.close()
    }

    /// A place that another user or program has prepared is not used.
    @Test func preparedPlacesAreNotFollowed() async throws {
        try write([1, 2, 3], to: "a")
        let collection = try collection("a")
        let first = try sink(Self.offer(collection))
        _ = try await first.prepare()
        let place = try #require(try names().first { $0.hasSuffix(".relay-part") })
        await first.close()
        try FileManager.default.createDirectory(atPath: "\(home.path)/elsewhere", withIntermediateDirectories: true)
        try FileManager.default.createSymbolicLink(atPath: "\(into)/\(place)", withDestinationPath: "\(home.path)/elsewhere")
        #expect(try await transfer(collection).0.names.map { $0?.text } == ["a"])
        #expect(try FileManager.default.contentsOfDirectory(atPath: "\(home.path)/elsewhere").isEmpty)
    }

    @Test func roomIsForAllTransfersTogether() {
        let room = ShareRoom(reserve: 1_000)
        let (one, other) = (ShareRoom(reserve: 0), ShareRoom(reserve: 0))
        let free: Int64 = 1_000 + 100
        #expect(room.take(60, of: free, for: ObjectIdentifier(one)))
        #expect(!room.take(41, of: free, for: ObjectIdentifier(other)))
        #expect(room.take(40, of: free, for: ObjectIdentifier(other)))
        // What is written is needed no more, unless it is written again.
        room.written(50, by: ObjectIdentifier(one))
        room.release(ObjectIdentifier(other))
        #expect(
            room.take(41, of: free - 50, for: ObjectIdentifier(other)) == false
                && room.take(40, of: free - 50, for: ObjectIdentifier(other))
        )
        room.written(-50, by: ObjectIdentifier(one))
        room.written(.min, by: ObjectIdentifier(one))
        room.release(ObjectIdentifier(one))
        #expect(!room.take(.max, of: .max, for: ObjectIdentifier(one)))
        #expect(!room.take(1, of: 0, for: ObjectIdentifier(one)))
        #expect(room.take(1, of: nil, for: ObjectIdentifier(one)))
    }
}

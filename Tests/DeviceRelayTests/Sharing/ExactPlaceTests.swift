// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import RelayProtocol
import RelayStorage
import RelayTesting
import Testing

@testable import DeviceRelay

/// Files that arrive in a place of their folder, and get exactly their names.
@Suite struct ExactPlaceTests {
    private let home: TemporaryDirectory
    private let folder: OpenFile
    private let film: EntryName
    private var path: String { home.path + "/film" }

    init() throws {
        home = try TemporaryDirectory()
        folder = try OpenFile.folder(at: home.path)
        film = try #require(EntryName("film"))
    }

    private func put(_ text: String, _ name: String) throws { try Data(text.utf8).write(to: URL(filePath: home.path + "/" + name)) }
    private func text(_ name: String) -> String? {
        FileManager.default.contents(atPath: home.path + "/" + name).map { String(decoding: $0, as: UTF8.self) }
    }
    private func names() throws -> [String] { try FileManager.default.subpathsOfDirectory(atPath: home.path).sorted() }

    private func sink(_ source: String = "tv", replaces: Bool = false) throws -> ShareSink {
        let place = try ShareStaging(film, from: [source], in: folder)
        let file = ShareOffer.Entry(path: [film], kind: .file(size: 6), modified: 1_000_000)
        return ShareSink([file], in: place, replaces: replaces, room: ShareRoom(reserve: 0))
    }

    private static func part(_ text: String, at offset: UInt64 = 0) -> BulkFrame {
        .data(entry: 0, offset: offset, ByteBuffer(string: text))
    }

    private static let end = BulkFrame.end(entry: 0, size: 6, Digest256(hashing: Array("abcdef".utf8)))

    private func receive(_ sink: ShareSink) async throws -> ShareSink.Outcome {
        _ = try await sink.prepare()
        try await sink.take([Self.part("abcdef"), Self.end])
        let outcome = try await sink.finish()
        await sink.close()
        return outcome
    }

    @Test func transferResumesWithTheSameSourceOnly() async throws {
        for (source, length) in [("tv", 0), ("tv", 3), ("pc", 0), ("tv", 3)] as [(String, Int64)] {
            let sink = try sink(source)
            #expect(try await sink.prepare().map(\.length) == (length == 0 ? [] : [length]))
            try await sink.take([Self.part("abc")])
            await sink.close()
        }
        let sink = try sink()
        let have = try #require(try await sink.prepare().first)
        #expect(have == .init(entry: 0, length: 3, digest: Digest256(hashing: Array("abc".utf8))))
        try await sink.take([Self.part("def", at: 3), Self.end])
        #expect(try await sink.finish().names == [film])
        #expect(await sink.kept == [0: 3])
        #expect(text("film") == "abcdef")
        let facts = try FileManager.default.attributesOfItem(atPath: path)
        #expect(facts[.modificationDate] as? Date == Date(timeIntervalSince1970: 1_000))
    }

    /// The other side did not accept what was here.
    @Test func contentThatBeginsAgainIsNotCountedAsKept() async throws {
        do {
            let first = try sink()
            _ = try await first.prepare()
            try await first.take([Self.part("xxxxx")])
            await first.close()
        }
        let second = try sink()
        #expect(try await second.prepare().map(\.length) == [5])
        try await second.take([Self.part("abc"), Self.part("def", at: 3), Self.end])
        #expect(try await second.finish().names == [film])
        #expect(await second.kept == [0: 0])
        #expect(text("film") == "abcdef")
    }

    @Test func secondTransferIsRejectedAsBusy() throws {
        let place = try ShareStaging(film, from: ["tv"], in: folder)
        #expect(throws: SystemError(EWOULDBLOCK)) { try ShareStaging(film, from: ["tv"], in: folder) }
        _ = try ShareStaging(nil, from: ["tv"], in: folder)
        withExtendedLifetime(place) {}
    }

    @Test func placeWithoutContentDoesNotStay() async throws {
        do {
            let sink = try sink()
            _ = try await sink.prepare()
            #expect(try names().count == 1)
            await sink.close()
        }
        #expect(try names() == [])
        #expect(try await receive(sink()).failures.isEmpty)
        #expect(try names() == ["film"])
    }

    @Test func onlyARegularFileIsReplaced() async throws {
        for kind in ["file", "link", "dangling", "pipe", "folder"] {
            for replaces in [false, true] {
                for name in try FileManager.default.contentsOfDirectory(atPath: home.path) {
                    try FileManager.default.removeItem(atPath: home.path + "/" + name)
                }
                try put("mine", "mine")
                // It appears while the transfer runs.
                switch kind {
                case "file": try put("mine", "film")
                case "link": try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: "mine")
                case "dangling": try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: "new")
                case "pipe": #expect(mkfifo(path, 0o600) == 0)
                default: try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
                }
                let outcome = try await receive(sink(replaces: replaces))
                let isReplaced = replaces && kind == "file"
                #expect(outcome.failures.map(\.error) == (isReplaced ? [] : [SystemError(EEXIST)]), "\(kind) \(replaces)")
                #expect(text("mine") == "mine" && text("new") == nil)
                if isReplaced { #expect(text("film") == "abcdef") }
                // What has arrived is kept.
                if !isReplaced { #expect(try names().contains { $0.hasSuffix(".relay-part/film") }) }
            }
        }
    }

    /// An unfinished file is in a folder of its user only. A file that replaces another one gets its permissions.
    @Test(arguments: [nil, 0o600, 0o640, 0o444, 0o755, 0o4755, 0o1666] as [Int?]) func newFileKeepsThePermissionsOfTheOldOne(mode: Int?)
        async throws
    {
        func permissions(_ name: String) throws -> Int? {
            try FileManager.default.attributesOfItem(atPath: home.path + "/" + name)[.posixPermissions] as? Int
        }
        if let mode {
            try put("old", "film")
            #expect(chmod(path, mode_t(mode)) == 0)
        }
        let sink = try sink(replaces: mode != nil)
        let place = try #require(try names().first { $0.hasSuffix(".relay-part") })
        #expect(try permissions(place) == 0o700)
        #expect(try await receive(sink).failures.isEmpty)
        #expect(text("film") == "abcdef")
        #expect(try permissions("film") == mode.map { $0 & 0o777 } ?? Int(OpenFile.newFilePermissions))
    }

    /// Files of one folder share a place, and have no name before they are whole.
    @Test func filesOfAFolderShareAPlace() async throws {
        let place = try ShareStaging(nil, from: ["tv", ""], in: folder)
        let names = try ["a", "b", "c"].map { try #require(EntryName($0)) }
        func sink(_ names: ArraySlice<EntryName>) -> ShareSink {
            let files = names.map { ShareOffer.Entry(path: [$0], kind: .file(size: 1), modified: 0) }
            return ShareSink(files, in: place, replaces: false, room: ShareRoom(reserve: 0))
        }
        func frames(_ entry: UInt32) -> [BulkFrame] {
            [.data(entry: entry, offset: 0, ByteBuffer(string: "x")), .end(entry: entry, size: 1, Digest256(hashing: Array("x".utf8)))]
        }
        let (one, other) = (sink(names[..<2]), sink(names[2...]))
        for sink in [one, other] { _ = try await sink.prepare() }
        try await other.take(frames(0))
        #expect(try await other.finish().names == [names[2]])
        await other.close()
        try await one.take(frames(1) + [.abandoned(entry: 0)])
        let outcome = try await one.finish()
        #expect(outcome.names == [nil, names[1]] && outcome.failures.map(\.problem) == [.abandoned])
        #expect(text("b") == "x" && text("c") == "x" && text("a") == nil)
    }

    /// What the system has there of others is neither used nor changed.
    @Test func preparedPlacesAreNotUsed() throws {
        let name = EntryName.part(of: film, from: Digest256(hashing: Array("2:tv4:film1:0".utf8)).label)
        for kind in ["link", "file", "pipe", "open folder"] {
            let place = home.path + "/" + name.text
            switch kind {
            case "link": try FileManager.default.createSymbolicLink(atPath: place, withDestinationPath: "elsewhere")
            case "file": try put("mine", name.text)
            case "pipe": #expect(mkfifo(place, 0o600) == 0)
            default: try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: false)
            }
            #expect(throws: SystemError(EWOULDBLOCK), "\(kind)") { try ShareStaging(film, from: ["tv"], in: folder) }
            #expect(try names() == [name.text])
            try FileManager.default.removeItem(atPath: place)
        }
    }
}

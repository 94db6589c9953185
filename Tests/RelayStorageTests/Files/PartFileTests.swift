// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import RelayStorage

@Suite struct PartFileTests {
    private final class Folder {
        let path = FileManager.default.temporaryDirectory.appending(path: "part-\(UUID().uuidString)").path
        let file: OpenFile

        init() throws {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            file = try OpenFile.folder(at: path)
        }

        deinit { try? FileManager.default.removeItem(atPath: path) }

        func put(_ text: String, _ name: String) throws { try Data(text.utf8).write(to: URL(filePath: path + "/" + name)) }
        func text(_ name: String) -> String? {
            FileManager.default.contents(atPath: path + "/" + name).map { String(decoding: $0, as: UTF8.self) }
        }
        func names() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: path).sorted() }

        func part(_ etag: String = "1", path: String = "film", device: String = "tv") throws -> PartFile {
            let name = try #require(EntryName("film"))
            return try PartFile(name, in: file, of: .init(device: device, app: "app", path: path, size: 6, etag: etag))
        }
    }

    /// The name of what is in the way.
    private func occupied(_ body: () throws -> PartFile) throws -> String? {
        do {
            _ = try body()
            return nil
        } catch PartFile.Failure.occupied(let name) {
            return name.text
        }
    }

    @Test func transferResumesWithTheSameFileOnly() throws {
        let folder = try Folder()
        func begin(_ body: () throws -> PartFile, expect start: Int64) throws {
            let part = try body()
            #expect(part.start == start)
            try part.write(Array("abc".utf8), at: 0)
        }
        try begin({ try folder.part() }, expect: 0)
        #expect(try folder.names() == [".film.relay-mark", ".film.relay-part"])
        try begin({ try folder.part() }, expect: 3)
        try begin({ try folder.part("2") }, expect: 0)
        try begin({ try folder.part("2", path: "other/film") }, expect: 0)
        try begin({ try folder.part("2", path: "other/film", device: "pc") }, expect: 0)
        let part = try folder.part("2", path: "other/film", device: "pc")
        #expect(part.start == 3)
        try part.write(Array("def".utf8), at: 3)
        try part.publish(modified: Date(timeIntervalSince1970: 1_000), replaces: false)
        #expect(folder.text("film") == "abcdef")
        #expect(try folder.names() == ["film"])
    }

    @Test func secondProcessIsRejectedAsBusy() throws {
        let folder = try Folder()
        let part = try folder.part()
        do {
            _ = try folder.part()
            Issue.record("two at a time")
        } catch PartFile.Failure.busy {}
        withExtendedLifetime(part) {}
    }

    @Test func transferStartsAgainAfterAnyInterruption() throws {
        let folder = try Folder()
        // An earlier transfer ended after creating the mark; after creating the part; and with the part deleted later.
        try folder.put("", ".film.relay-mark")
        #expect(try folder.part().start == 0)
        try folder.put("", ".film.relay-mark")
        try folder.put("", ".film.relay-part")
        #expect(try folder.part().start == 0)
        try FileManager.default.removeItem(atPath: folder.path + "/.film.relay-part")
        #expect(try folder.part().start == 0)
        // A part that is longer than the file is discarded.
        try folder.put("abcdefghij", ".film.relay-part")
        #expect(try folder.part().start == 0)
        #expect(folder.text(".film.relay-part") == "")
    }

    @Test func filesOfOtherProgramsAreNotTouched() throws {
        for (mark, part) in [(nil, "mine"), ("", "mine"), ("mine", nil), ("mine", ""), ("mine", "mine")] as [(String?, String?)] {
            let folder = try Folder()
            if let mark { try folder.put(mark, ".film.relay-mark") }
            if let part { try folder.put(part, ".film.relay-part") }
            let inTheWay = mark == "mine" ? ".film.relay-mark" : ".film.relay-part"
            #expect(try occupied { try folder.part() } == inTheWay, "\(mark ?? "-") \(part ?? "-")")
            #expect(folder.text(".film.relay-part") == part)
            #expect(folder.text(".film.relay-mark") == (mark == "" ? nil : mark))
        }
    }

    @Test func linksPipesAndFoldersAreNotUsedAsPartFiles() throws {
        for name in [".film.relay-part", ".film.relay-mark"] {
            for hasBegun in [false, true] {
                for kind in ["link", "dangling", "second name", "pipe", "folder"] {
                    let folder = try Folder()
                    if hasBegun {
                        try folder.part().write([1], at: 0)
                        try FileManager.default.removeItem(atPath: folder.path + "/" + name)
                    }
                    let (path, mine) = (folder.path + "/" + name, folder.path + "/mine")
                    try folder.put("mine", "mine")
                    switch kind {
                    case "link": try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: mine)
                    case "dangling": try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: "new")
                    case "second name": try FileManager.default.linkItem(atPath: mine, toPath: path)
                    case "pipe": #expect(mkfifo(path, 0o600) == 0)
                    default: try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
                    }
                    #expect(try occupied { try folder.part() } == name, "\(name) \(kind) \(hasBegun)")
                    #expect(folder.text("mine") == "mine" && folder.text("new") == nil)
                }
            }
        }
    }

    @Test func onlyARegularFileIsReplaced() throws {
        for kind in ["file", "link", "dangling", "pipe", "folder"] {
            for replaces in [false, true] {
                let folder = try Folder()
                let part = try folder.part()
                try part.write(Array("abcdef".utf8), at: 0)
                let path = folder.path + "/film"
                try folder.put("mine", "mine")
                // The file appears while the transfer runs.
                switch kind {
                case "file": try folder.put("mine", "film")
                case "link": try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: "mine")
                case "dangling": try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: "new")
                case "pipe": #expect(mkfifo(path, 0o600) == 0)
                default: try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
                }
                var isRefused = false
                do {
                    try part.publish(modified: .now, replaces: replaces)
                } catch PartFile.Failure.exists {
                    isRefused = true
                }
                #expect(isRefused == !(replaces && kind == "file"), "\(kind) \(replaces)")
                #expect(folder.text("mine") == "mine" && folder.text("new") == nil)
                // The received bytes are kept.
                if isRefused { #expect(folder.text(".film.relay-part") == "abcdef") }
            }
        }
    }

    /// An unfinished file is readable by its owner only. A file that replaces another one gets its permissions.
    @Test(arguments: [nil, 0o600, 0o640, 0o444, 0o755, 0o4755, 0o1666] as [Int?]) func newFileKeepsThePermissionsOfTheOldOne(mode: Int?)
        throws
    {
        let folder = try Folder()
        func permissions(_ name: String) throws -> Int? {
            try FileManager.default.attributesOfItem(atPath: folder.path + "/" + name)[.posixPermissions] as? Int
        }
        try folder.put("old", "film")
        let new = try permissions("film")
        if let mode { #expect(chmod(folder.path + "/film", mode_t(mode)) == 0) }
        if mode == nil { try FileManager.default.removeItem(atPath: folder.path + "/film") }
        let part = try folder.part()
        try part.write(Array("abcdef".utf8), at: 0)
        #expect(try permissions(".film.relay-part") == 0o600)
        try part.publish(modified: .now, replaces: mode != nil)
        #expect(folder.text("film") == "abcdef")
        #expect(try permissions("film") == mode.map { $0 & 0o777 } ?? new)
    }

    @Test func renameDoesNotReplaceAnExistingFile() throws {
        let (name, other) = (try #require(EntryName("new")), try #require(EntryName("there")))
        let overReservation = { (folder: OpenFile) in
            { (name: EntryName, other: EntryName) throws(SystemError) in try folder.renameOverReservation(name, to: other, in: folder) }
        }
        for rename in [OpenFile.rename(_:to:), overReservation] {
            let folder = try Folder()
            try folder.put("new", "new")
            try folder.put("mine", "there")
            #expect(throws: SystemError(EEXIST)) { try rename(folder.file)(name, other) }
            #expect(folder.text("there") == "mine" && folder.text("new") == "new")
            try FileManager.default.removeItem(atPath: folder.path + "/there")
            try rename(folder.file)(name, other)
            #expect(folder.text("there") == "new")
            #expect(try folder.names() == ["there"])
        }
    }

    /// A folder is replaced by a link again and again, while files are written into it by its name.
    @Test func symbolicLinkThatReplacesAFolderIsNotFollowed() async throws {
        let folder = try Folder()
        let (inner, outer, aside) = (folder.path + "/inner", folder.path + "/outer", folder.path + "/aside")
        try FileManager.default.createDirectory(atPath: outer, withIntermediateDirectories: false)
        try FileManager.default.createDirectory(atPath: inner, withIntermediateDirectories: false)
        let (top, name, file) = (folder.file, try #require(EntryName("inner")), try #require(EntryName("x")))
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                for _ in 0..<2_000 {
                    rename(inner, aside)
                    symlink(outer, inner)
                    unlink(inner)
                    rename(aside, inner)
                }
            }
            group.addTask {
                for _ in 0..<2_000 {
                    guard let into = try? top.open(name, O_RDONLY | O_DIRECTORY) else { continue }
                    _ = try? into.open(file, O_RDWR | O_CREAT, mode: 0o600).write([1], at: 0)
                }
            }
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: outer) == [])
    }

    @Test func invalidModificationDateIsIgnored() throws {
        let folder = try Folder()
        for seconds in [Double.nan, .infinity, -.infinity, 1e300, -1e300, 9.3e18, -1.5, 1e10] {
            let part = try folder.part()
            try part.publish(modified: Date(timeIntervalSince1970: seconds), replaces: true)
        }
        #expect(try folder.names() == ["film"])
    }
}

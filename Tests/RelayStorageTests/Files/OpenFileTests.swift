// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import RelayStorage

@Suite struct OpenFileTests {
    private final class Folder {
        let path = FileManager.default.temporaryDirectory.appending(path: "files-\(UUID().uuidString)").path
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
    }

    @Test func renameDoesNotReplaceAnExistingFile() throws {
        let (name, other) = (try #require(EntryName("new")), try #require(EntryName("there")))
        let overReservation = { (folder: OpenFile) in
            { (name: EntryName, other: EntryName) throws(SystemError) in try folder.renameOverReservation(name, to: other, in: folder) }
        }
        let move = { (folder: OpenFile) in
            { (name: EntryName, other: EntryName) throws(SystemError) in try folder.move(name, to: other, in: folder, isFolder: false) }
        }
        for rename in [move, overReservation] {
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
        let file = try folder.file.open(try #require(EntryName("film")), O_RDWR | O_CREAT, mode: 0o600)
        let before = try file.facts().modified
        for seconds in [Double.nan, .infinity, -.infinity, 1e300, -1e300, 9.3e18] {
            file.setModified(Date(timeIntervalSince1970: seconds))
            #expect(try file.facts().modified == before)
        }
        for seconds in [-1.5, 1e10] {
            file.setModified(Date(timeIntervalSince1970: seconds))
            #expect(try file.facts().modified == Date(timeIntervalSince1970: seconds))
        }
    }
}

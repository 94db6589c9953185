// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import NIOCore
import RelayProtocol
import RelayTesting
import Synchronization
import Testing

@testable import RelayAgent

/// A device that shares a folder attacks the downloading device, and a caller attacks the sharing one.
@Suite(.serialized, .timeLimit(.minutes(10))) struct FilesAttackTests {
    /// A downloading device, and a hostile device that answers.
    private final class World {
        let account: TestAccount
        let desk: TestDevice
        let hostile = HostileFolder()
        private let app: TestApp

        init() async throws {
            account = try await TestAccount()
            desk = try await account.device(named: "Desk")
            app = try await account.app(hostile.registration, on: "TV")
        }

        func folder(_ name: String) throws -> String {
            let path = desk.directory.path + "/" + name
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            return path
        }

        func fetch(_ arguments: String...) async throws -> CommandOutput { try await desk.run(["fetch", "TV"] + arguments + ["--json"]) }
    }

    private static func put(_ text: String, _ path: String) throws { try Data(text.utf8).write(to: URL(filePath: path)) }
    private static func text(_ path: String) -> String? {
        FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) }
    }
    private static func names(_ path: String) throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: path).sorted() }
    private static func type(_ path: String) -> FileAttributeType? {
        try? FileManager.default.attributesOfItem(atPath: path)[.type] as? FileAttributeType
    }
    /// The error code of the last result line.
    private static func failure(_ output: CommandOutput) throws -> String? {
        (try JSON.object(output.output.last ?? "{}")["error"] as? [String: Any])?["code"] as? String
    }

    @Test func listingWritesNoFileOutsideTheDestination() async throws {
        let world = try await World()
        let home = try world.folder("person")
        // With these marks the separator is part of a larger Character, but it is still a separator for the file system.
        let mark = "\u{301}\u{0D4E}"
        let up = "../\(mark)/.."
        let steps = [HostileFolder.folder("../\(mark)"), HostileFolder.folder(up)]
        world.hostile.answer(folders: [
            ("", steps), (up, steps), ("\(up)/\(up)", [HostileFolder.folder(".ssh")]),
            ("\(up)/\(up)/.ssh", [HostileFolder.file("authorized_keys")]),
        ])
        let climbing = try await world.fetch("", "-r", "-o", home + "/Downloads/x")
        #expect(climbing.status == 1)
        #expect(try Self.failure(climbing) == "nameNotAllowed")
        for name in [
            "../\u{301}x", "../\u{200D}x", "../\u{200C}x", "\u{0D4E}/x", "..\u{0D4E}/x", "a/\u{301}b", "/\u{301}tmp", "/\u{20DD}", "a\\b",
            "..\\x",
        ] {
            world.hostile.answer(folders: [("", [HostileFolder.file(name)])])
            let output = try await world.fetch("", "-r", "-o", home + "/Downloads/x")
            #expect(output.status == 1, "\(name)")
            #expect(try Self.failure(output) == "nameNotAllowed", "\(name.debugDescription)")
        }
        #expect(try FileManager.default.subpathsOfDirectory(atPath: home).sorted() == ["Downloads", "Downloads/x"])
    }

    @Test func transferReplacesNoExistingFile() async throws {
        let world = try await World()
        let own = try world.folder("own")
        // Names that other programs use for unfinished downloads.
        try Self.put("mine", own + "/a.part")
        try Self.put("mine", own + "/b.part.etag")
        world.hostile.answer(folders: [("", [HostileFolder.file("a"), HostileFolder.file("b")])])
        #expect(try await world.fetch("", "-r", "-o", own).status == 0)
        #expect(Self.text(own + "/a.part") == "mine" && Self.text(own + "/b.part.etag") == "mine")
        #expect(Self.text(own + "/a") == "evil" && Self.text(own + "/b") == "evil")
        // The file appears while the transfer runs.
        let late = own + "/late"
        world.hostile.answer(folders: [("", [HostileFolder.file("late")])], onSend: { try Self.put("mine", late) })
        let output = try await world.fetch("late", "-o", own)
        #expect(output.status == 1)
        #expect(try code(output) == "fileExists")
        #expect(Self.text(late) == "mine")
        // A dangling link belongs to the user, too.
        let link = own + "/link"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "nowhere")
        world.hostile.answer(folders: [("", [HostileFolder.file("link")])])
        for arguments in [["", "-r"], ["link"], ["", "-r", "--force"], ["link", "--force"]] {
            let output = try await world.desk.run(["fetch", "TV"] + arguments + ["-o", own, "--json"])
            #expect(output.status != 0, "\(arguments)")
            #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == "nowhere")
        }
        // The transfer of `late` leaves only its own files behind.
        #expect(try Self.names(own).filter { !$0.hasPrefix(".late-") } == ["a", "a.part", "b", "b.part.etag", "late", "link"])
    }

    @Test func folderIsNotWrittenThroughASymbolicLink() async throws {
        let world = try await World()
        let (own, elsewhere) = (try world.folder("own"), try world.folder("elsewhere"))
        try FileManager.default.createSymbolicLink(atPath: own + "/Films", withDestinationPath: elsewhere)
        world.hostile.answer(folders: [("", [HostileFolder.folder("Films")]), ("Films", [HostileFolder.file("a")])])
        for arguments in [["", "-r"], ["", "-r", "--force"], ["Films", "-r"]] {
            let output = try await world.desk.run(["fetch", "TV"] + arguments + ["-o", own, "--json"])
            #expect(output.status != 0, "\(arguments)")
        }
        #expect(try Self.names(elsewhere) == [])
        #expect(Self.type(own + "/Films") == .typeSymbolicLink)
    }

    @Test func onlyRegularFilesAreReplaced() async throws {
        let world = try await World()
        let (own, elsewhere) = (try world.folder("own"), try world.folder("elsewhere"))
        world.hostile.answer(folders: [("", [HostileFolder.file("a")])])
        // A link to a folder counts as that folder.
        try FileManager.default.createSymbolicLink(atPath: own + "/Desktop", withDestinationPath: elsewhere)
        #expect(try await world.fetch("a", "-o", own + "/Desktop", "--force").status == 0)
        #expect(Self.type(own + "/Desktop") == .typeSymbolicLink)
        #expect(Self.text(elsewhere + "/a") == "evil")
        // A link to a file counts as that file.
        try Self.put("mine", elsewhere + "/target")
        try FileManager.default.createSymbolicLink(atPath: own + "/file", withDestinationPath: elsewhere + "/target")
        #expect(try code(try await world.fetch("a", "-o", own + "/file")) == "fileExists")
        #expect(Self.text(elsewhere + "/target") == "mine")
        #expect(try await world.fetch("a", "-o", own + "/file", "--force").status == 0)
        #expect(Self.type(own + "/file") == .typeSymbolicLink)
        #expect(Self.text(elsewhere + "/target") == "evil")
        // Pipes, sockets, devices, links to them, and dangling links.
        #expect(mkfifo(own + "/pipe", 0o600) == 0)
        try FileManager.default.createSymbolicLink(atPath: own + "/to-pipe", withDestinationPath: "pipe")
        try FileManager.default.createSymbolicLink(atPath: own + "/dangling", withDestinationPath: "nowhere")
        var special = ["pipe", "to-pipe", "dangling"]
        let socket = try #require(UnixSocket(own + "/socket"))
        defer { socket.close() }
        special.append("socket")
        // A device with the numbers of /dev/null. Only root can create one.
        if mknod(own + "/device", S_IFCHR | 0o600, dev_t(0x103)) == 0 { special.append("device") }
        for name in special {
            let before = Self.type(own + "/" + name)
            for arguments in [[], ["--force"]] {
                let output = try await world.desk.run(["fetch", "TV", "a", "-o", own + "/" + name, "--json"] + arguments)
                #expect(try code(output) == "notAFile", "\(name): \(output.text)")
                #expect(output.status == 2, "\(name)")
            }
            #expect(before != nil && Self.type(own + "/" + name) == before, "\(name)")
        }
        #expect(try Self.names(own) == (special + ["Desktop", "file"]).sorted())
        // The same for a listing that contains such a name.
        world.hostile.answer(folders: [("", [HostileFolder.file("pipe")])])
        #expect(try await world.fetch("", "-r", "-o", own, "--force").status != 0)
        #expect(mkfifo(own + "/pipe", 0o600) != 0)
        #expect(Self.type(own + "/pipe") == .typeUnknown)
    }

    @Test func sizeOfAListingIsLimited() async throws {
        let world = try await World()
        let large = String(repeating: "x", count: 6 << 20)
        let endless = 8
        func page(_ hostile: HostileFolder, _ entries: @escaping @Sendable (_ page: Int, _ after: String?) -> [FileServiceMessages.Entry]) {
            let pages = Mutex(0)
            hostile.answer { question in
                guard question.type == "list" else { return try HostileFolder.stat(.folder) }
                let page = pages.withLock { pages in
                    pages += 1
                    return pages
                }
                return try HostileFolder.list(entries(page, question.after), more: page < endless)
            }
        }
        let attacks: [(String, @Sendable (Int, String?) -> [FileServiceMessages.Entry])] = [
            ("etags without bound", { page, _ in [HostileFolder.file("a\(page + 100)", size: 0, etag: large)] }),
            ("names without bound", { page, _ in [HostileFolder.file("a\(page + 100)" + large, size: 0)] }),
            ("the same name again", { _, _ in [HostileFolder.file("a", size: 0)] }),
            ("names that go back", { page, _ in [HostileFolder.file("a\(200 - page)", size: 0)] }),
            (
                "one name twice",
                { page, _ in [HostileFolder.file("a\(page + 100)", size: 0), HostileFolder.file("a\(page + 100)", size: 0)] }
            ),
            (
                "more than a page holds",
                { page, _ in (0..<20_000).map { HostileFolder.file("a\(page + 100)-\($0 + 100_000)", size: 0) } }
            ),
        ]
        for (attack, entries) in attacks {
            for arguments in [[], ["-r", "-o", try world.folder(attack)]] {
                page(world.hostile, entries)
                let output = try await world.desk.run(["fetch", "TV", "", "--json"] + arguments)
                #expect(output.status == 1, "\(attack)")
                #expect(["listingInvalid", "nameNotAllowed"].contains(try Self.failure(output)), "\(attack): \(output.text.prefix(500))")
                #expect(world.hostile.count(of: "list") <= 2, "\(attack)")
            }
        }
    }

    @Test func aNegativeSizeIsAnError() async throws {
        let world = try await World()
        let own = try world.folder("own")
        // The file of an earlier transfer claims that the whole file is already here.
        world.hostile.answer(folders: [("", [HostileFolder.file("a.part.etag", size: 1, etag: "e")])], content: "e")
        #expect(try await world.fetch("", "-r", "-o", own).status == 0)
        for size in [Int64(-1), .min] {
            world.hostile.answer(folders: [("", [HostileFolder.file("a", size: size, etag: "e")])])
            for arguments in [["-r", "-o", own], []] {
                let output = try await world.desk.run(["fetch", "TV", "", "--json"] + arguments)
                #expect(output.status == 1, "\(size)")
                #expect(try Self.failure(output) == "listingInvalid", "\(size)")
            }
        }
        world.hostile.answer { question in
            question.type == "stat" ? try HostileFolder.stat(.file, size: -1) : HostileFolder.content([])
        }
        let output = try await world.fetch("a", "-o", own + "/b")
        #expect(output.status == 1)
        #expect(try code(output) == "listingInvalid")
    }

    /// A device that breaks the rules of the stream ends the transfer, and nothing gets a name.
    @Test func contentThatWasNotAskedForIsRefused() async throws {
        let world = try await World()
        let own = try world.folder("own")
        let evil = Array("evil".utf8)
        @Sendable func data(_ entry: UInt32, _ offset: UInt64, _ count: Int = 4) -> BulkFrame {
            .data(entry: entry, offset: offset, ByteBuffer(repeating: 0x65, count: count))
        }
        let attacks: [(String, @Sendable (UInt32) -> [BulkFrame])] = [
            ("more bytes than the size", { [data($0, 0, 5)] }), ("more bytes later", { [data($0, 0, 3), data($0, 3, 2)] }),
            ("a gap", { [data($0, 1, 1)] }), ("an offset that goes back", { [data($0, 0, 3), data($0, 1, 3)] }),
            ("the largest offset", { [data($0, .max - 4)] }), ("another size", { [.end(entry: $0, size: 5, Digest256(hashing: evil))] }),
            ("another entry", { HostileFolder.frames($0 + 2, evil) }), ("the largest entry", { _ in HostileFolder.frames(.max, evil) }),
            ("an entry again", { HostileFolder.frames($0, evil) + HostileFolder.frames($0, evil) }), ("the end", { _ in [.complete] }),
        ]
        for (attack, frames) in attacks {
            world.hostile.answer(
                folders: [("", [HostileFolder.file("a"), HostileFolder.file("b")])],
                frames: { files in frames(files[0].entry) + files.map { .end(entry: $0.entry, size: 4, Digest256(hashing: evil)) } }
            )
            for arguments in [["a", "-o", own], ["", "-r", "-o", own]] {
                let output = try await world.desk.run(["fetch", "TV", "--json"] + arguments)
                // One file alone is there before the second one comes.
                if attack == "an entry again", arguments[0] == "a", output.status == 0 {
                    try FileManager.default.removeItem(atPath: own + "/a")
                    continue
                }
                #expect(output.status == 1, "\(attack)")
                #expect(try Self.failure(output) == "contentInvalid", "\(attack): \(output.text)")
                #expect(try Self.names(own).allSatisfy { $0.hasSuffix(".relay-part") }, "\(attack)")
            }
            let piped = try await world.desk.run(["fetch", "TV", "a", "-o", "-"])
            #expect(piped.status == 1 || attack == "an entry again", "\(attack)")
        }
        #expect(try Self.names(world.desk.directory.path).filter { !["home", "config", "own"].contains($0) && !$0.hasPrefix(".") } == [])
    }

    /// Content with another digest is not whole, whatever the device says.
    @Test func damagedContentGetsNoName() async throws {
        let world = try await World()
        let own = try world.folder("own")
        let (evil, other) = (Array("evil".utf8), Digest256(hashing: Array("good".utf8)))
        let damaged: [@Sendable (UInt32) -> [BulkFrame]] = [
            { [.data(entry: $0, offset: 0, ByteBuffer(bytes: evil)), .end(entry: $0, size: 4, other)] },
            { [.data(entry: $0, offset: 0, ByteBuffer(bytes: evil.prefix(3))), .end(entry: $0, size: 4, Digest256(hashing: evil))] },
            { [.end(entry: $0, size: 4, Digest256(hashing: evil))] },
        ]
        for frames in damaged {
            world.hostile.answer(folders: [("", [HostileFolder.file("a"), HostileFolder.file("b")])]) { files in
                files.flatMap { $0.path == "a" ? frames($0.entry) : HostileFolder.frames($0.entry, evil) }
            }
            let one = try await world.fetch("a", "-o", own)
            #expect(one.status == 1)
            #expect(try code(one) == "fileDamaged")
            #expect(try await world.desk.run(["fetch", "TV", "a", "-o", "-"]).status == 1)
            let all = try await world.fetch("", "-r", "-o", own)
            #expect(all.status == 9)
            #expect(try Self.failure(all) == "incomplete")
            #expect(try Self.names(own) == ["b"] && Self.text(own + "/b") == "evil")
            try FileManager.default.removeItem(atPath: own + "/b")
        }
    }

    @Test func requestsCannotLeaveTheSharedFolder() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let shared = tv.directory.path + "/shared"
        let mark = "\u{301}\u{0D4E}"
        // Files that an earlier attack on the sharing device may have left.
        for folder in [shared, tv.directory.path + "/\(mark)", tv.directory.path + "/outside"] {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        }
        try Self.put("secret", tv.directory.path + "/\u{301}outside.txt")
        try Self.put("secret", tv.directory.path + "/outside/\u{301}x")
        try Self.put("secret", tv.directory.path + "/secret")
        try FileManager.default.createSymbolicLink(atPath: shared + "/link", withDestinationPath: tv.directory.path + "/outside")
        let agent = try await tv.agent("files:\n  folder: \(shared)")
        let caller = try desk.startReading("call", "TV/org.device-relay.agent", "files", "--stream")
        for path in [
            "../\u{301}outside.txt", "link/\u{301}x", "../\(mark)/../secret", "../\(mark)", "link/\u{200D}", "a\\..\\secret",
        ] {
            for type in ["stat", "list"] {
                let message = ["Type": .string(type), "path": .string(path)] as ValueSet
                try caller.write(try message.json() + "\n")
                let answer = try JSON.object(try await caller.line())
                #expect(answer as? [String: String] == ["problem": "notAllowed"], "\(type) \(path.debugDescription)")
            }
        }
        try caller.endInput()
        #expect(await caller.finish().status == 0)
        _ = agent
    }
}

/// A socket in the file system. Its name remains after it is closed.
private struct UnixSocket {
    private let descriptor: Int32

    init?(_ path: String) {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        guard path.utf8.count < MemoryLayout.size(ofValue: address.sun_path) else { return nil }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        #if canImport(Glibc)
        descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        #else
        descriptor = socket(AF_UNIX, SOCK_STREAM, 0)
        #endif
        let isBound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
            }
        }
        guard isBound else { return nil }
    }

    func close() { _ = Foundation.close(descriptor) }
}

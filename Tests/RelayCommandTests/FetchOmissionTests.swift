// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayStorage
import RelayTesting
import Testing

@testable import RelayAgent

/// A folder is fetched as far as possible, and what is left out is named.
@Suite(.serialized, .timeLimit(.minutes(10))) struct FetchOmissionTests {
    private func names(_ path: String) throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: path).sorted() }

    /// The omissions that a command printed as JSON: message by path.
    private func leftOut(_ output: CommandOutput) throws -> [String: String] {
        var all: [String: String] = [:]
        for line in output.output {
            for omission in try JSON.object(line)["leftOut"] as? [[String: String]] ?? [] {
                all[omission["path"] ?? ""] = omission["message"]
            }
        }
        return all
    }

    @Test func whatCannotBeSharedIsNamed() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let (shared, own) = (tv.directory.path + "/shared", desk.directory.path + "/own")
        try FileManager.default.createDirectory(atPath: shared + "/sub", withIntermediateDirectories: true)
        for name in ["a", "sub/b", "z", "line\nfeed", "back\\slash", "bidi\u{202E}", ".x.relay-part"] {
            try Data("x".utf8).write(to: URL(filePath: shared + "/" + name))
        }
        // A name in Latin-1.
        let latin = (shared + "/caf").utf8CString.dropLast() + [CChar(bitPattern: 0xE9), 0]
        let descriptor = Array(latin).withUnsafeBufferPointer { $0.baseAddress.map { open($0, O_CREAT | O_WRONLY, 0o600) } ?? -1 }
        try #require(descriptor >= 0)
        close(descriptor)
        try FileManager.default.createSymbolicLink(atPath: shared + "/sub/link", withDestinationPath: "b")
        #expect(mkfifo(shared + "/pipe", 0o600) == 0)
        let agent = try await tv.agent("files: {folder: \(shared)}")
        _ = agent
        let expected = [
            "line\\u{a}feed": "controls a line", "back\\slash": "backslash", "bidi\\u{202e}": "writing direction",
            ".x.relay-part": "unfinished",
            "caf\\xe9": "not UTF-8", "sub/link": "it is a link", "pipe": "neither a file nor a folder",
        ]
        let all = try await desk.relay("fetch", "TV", "-r", "-o", own, "--json")
        #expect(all.status == 9)
        let omissions = try leftOut(all)
        #expect(Set(omissions.keys) == Set(expected.keys))
        for (path, words) in expected { #expect(omissions[path]?.contains(words) == true, "\(path): \(omissions[path] ?? "")") }
        let failure = try #require(try JSON.object(all.output.last ?? "")["error"] as? [String: Any])
        #expect(failure["code"] as? String == "incomplete" && failure["exit"] as? Int == 9)
        #expect(try names(own) == ["a", "sub", "z"] && names(own + "/sub") == ["b"])
        // The same as lines for people; a listing names them too.
        let words = try await desk.relay("fetch", "TV", "-r", "-o", own)
        #expect(words.status == 9 && words.error.filter { $0.contains("was left out") }.count == 7, "\(words.errorText)")
        let listed = try await desk.relay("fetch", "TV", "--json")
        #expect(listed.status == 0)
        #expect(try Set(leftOut(listed).keys) == Set(expected.keys.filter { !$0.contains("/") }))
        // Without such entries nothing is reported.
        #expect(try await desk.relay("fetch", "TV", "sub/b", "-o", own + "/c").status == 0)
    }

    @Test func fileThatFailsDoesNotEndTheTransfer() async throws {
        let account = try await TestAccount()
        let desk = try await account.device(named: "Desk")
        let hostile = HostileFolder()
        let app = try await account.app(hostile.registration, on: "TV")
        let own = desk.directory.path + "/own"
        try FileManager.default.createDirectory(atPath: own, withIntermediateDirectories: true)
        let problems = ["b": "failed", "c": "notFound", "d": "changed", "e": "notAFile"]
        hostile.answer { question in
            switch question.type {
            case "stat": return try HostileFolder.stat(.folder)
            case "list" where question.path.isEmpty:
                return try HostileFolder.list(
                    question.after == nil
                        ? ["a", "b", "c", "d", "e", "g"].map { HostileFolder.file($0) } + [HostileFolder.folder("h")] : []
                )
            case "list": return ["problem": "failed"]
            default:
                if let problem = problems[question.path] { return ["problem": .string(problem)] }
                return HostileFolder.content(Array("evil".utf8))
            }
        }
        let output = try await desk.run(["fetch", "TV", "-r", "-o", own, "--json"])
        #expect(output.status == 9, "\(output.text)")
        let omissions = try leftOut(output)
        #expect(omissions.keys.sorted() == ["b", "c", "d", "e", "h"])
        // No part is left of a file of which nothing came.
        #expect(try names(own) == ["a", "g", "h"])
        // A local file in the way concerns only itself.
        try Data("mine".utf8).write(to: URL(filePath: own + "/a"))
        try FileManager.default.removeItem(atPath: own + "/g")
        let again = try await desk.run(["fetch", "TV", "-r", "-o", own, "--json"])
        #expect(try leftOut(again).keys.sorted() == ["a", "b", "c", "d", "e", "h"])
        #expect(try names(own) == ["a", "g", "h"])
        _ = app
    }

    @Test func pathsMayBeLongerThanTheSystemAllows() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let name = try #require(EntryName(String(repeating: "d", count: 120)))
        func deep(_ root: String, _ levels: Int) throws -> OpenFile {
            var folder = try OpenFile.folder(at: root, creates: true)
            for _ in 0..<levels { folder = try folder.makeFolder(name) }
            return folder
        }
        let (shared, own) = (tv.directory.path + "/shared", desk.directory.path + "/own")
        let file = try #require(EntryName("file"))
        try deep(shared, 40).open(file, O_CREAT | O_WRONLY, mode: 0o600).write(Array("deep".utf8), at: 0)
        let agent = try await tv.agent("files: {folder: \(shared)}")
        _ = agent
        let all = try await desk.relay("fetch", "TV", "-r", "-o", own)
        #expect(all.status == 0, "\(all.errorText)")
        #expect(try deep(own, 40).open(file, O_RDONLY).read(from: 0, count: 10) == Array("deep".utf8))
        // The destination itself may be such a path, for a file, a folder, and a link at its end.
        let path = own + "/" + Array(repeating: name.text, count: 40).joined(separator: "/")
        let inner = Array(repeating: name.text, count: 40).joined(separator: "/")
        for (words, got) in [
            (["\(inner)/file", "-o", path + "/other"], "other"), (["\(inner)/file", "-o", path + "/other", "--force"], "other"),
        ] {
            let output = try await desk.run(["fetch", "TV"] + words)
            #expect(output.status == 0, "\(output.errorText)")
            let place = try #require(EntryName(got))
            #expect(try deep(own, 40).open(place, O_RDONLY).read(from: 0, count: 10) == Array("deep".utf8))
        }
        let folder = try await desk.relay("fetch", "TV", "-r", "-o", path + "/new/folder")
        #expect(folder.status == 0, "\(folder.errorText)")
        // FileManager does not remove such paths.
        for directory in [shared, own] {
            #expect(
                try await RelayProcess(["-rf", directory], executable: URL(filePath: "/bin/rm"), environment: [:]).finish().status == 0
            )
        }
    }
}

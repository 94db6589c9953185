// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import Testing

/// The responses of the service `files` as other programs see them: the fields of docs/agent.md and their types.
@Suite(.timeLimit(.minutes(10))) struct FilesFormTests {
    @Test func answersHaveTheDocumentedTypes() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let shared = tv.directory.path + "/shared"
        try FileManager.default.createDirectory(atPath: shared + "/folder", withIntermediateDirectories: true)
        try Data("Hello".utf8).write(to: URL(filePath: shared + "/hello.txt"))
        let agent = try await tv.agent("files:\n  folder: \(shared)")
        let caller = try desk.startReading("call", "TV/org.device-relay.agent", "files", "--stream")
        func ask(_ message: ValueSet) async throws -> ValueSet {
            try caller.write(try message.json() + "\n")
            return try ValueSet(json: try await caller.line())
        }
        func check(_ entry: ValueSet, name: String, kind: String, size: Int) {
            #expect(Set(entry.keys) == ["name", "kind", "size", "modified", "etag"])
            #expect(entry["name"] == .string(name) && entry["kind"] == .string(kind) && entry["size"] == .int(Int64(size)))
            #expect(entry["modified"]?.date != nil)
            #expect(entry["etag"]?.string?.isEmpty == false)
        }

        let stat = try await ask(["Type": "stat", "path": "hello.txt"])
        #expect(stat.keys.count == 1)
        check(try #require(stat["entry"]?.valueSet), name: "hello.txt", kind: "file", size: 5)

        let list = try await ask(["Type": "list", "path": ""])
        #expect(Set(list.keys) == ["entries", "more"] && list["more"] == false)
        guard case .array(let entries)? = list["entries"] else {
            Issue.record("\(list)")
            return
        }
        #expect(entries.count == 2)
        check(try #require(entries.first?.valueSet), name: "folder", kind: "folder", size: 0)
        check(try #require(entries.last?.valueSet), name: "hello.txt", kind: "file", size: 5)
        #expect(try await ask(["Type": "list", "path": "", "after": "hello.txt"]) == ["entries": .array([]), "more": false])

        let content = try await ask(["Type": "content"])
        #expect(content.keys.count == 1 && content["token"]?.data?.count == 32)
        #expect(try await ask(["Type": "content"]) == content)
        #expect(try await ask(["Type": "stat", "path": "gone"]) == ["problem": "notFound"])

        try caller.endInput()
        #expect(await caller.finish().status == 0)
        _ = agent
    }
}

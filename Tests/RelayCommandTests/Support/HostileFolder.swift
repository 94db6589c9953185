// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import Synchronization

@testable import RelayAgent

/// An app service `files` with the answers of an attacker.
final class HostileFolder: Sendable {
    struct Question: Sendable {
        var type: String
        var path: String
        var after: String?
        var offset: Int
        var length: Int
    }

    typealias Answer = @Sendable (Question) throws -> ValueSet

    private struct State {
        var answer: Answer = { _ in ValueSet() }
        var asked: [String: Int] = [:]
    }

    private let state = Mutex(State())

    /// The number of calls of a type since the answers changed.
    func count(of type: String) -> Int { state.withLock { $0.asked[type] ?? 0 } }

    func answer(_ answer: @escaping Answer) { state.withLock { $0 = State(answer: answer) } }

    /// Answers with these folders by path, compared by bytes. Every other path is an empty folder, and every file has the same content.
    func answer(
        folders: [(path: String, entries: [FileServiceMessages.Entry])],
        content: String = "evil",
        onRead: @escaping @Sendable () throws -> Void = {}
    ) {
        let bytes = Array(content.utf8)
        answer { question in
            switch question.type {
            case "stat":
                let isFile = folders.contains { folder in
                    folder.entries.contains { $0.kind == .file && Array($0.name.utf8) == Array(question.path.utf8) }
                }
                return try Self.stat(isFile ? .file : .folder, size: isFile ? Int64(bytes.count) : 0)
            case "list":
                let entries = folders.first { Array($0.path.utf8) == Array(question.path.utf8) }?.entries ?? []
                return try Self.list(question.after == nil ? entries : [])
            default:
                try onRead()
                return try Self.read(Array(bytes.dropFirst(question.offset).prefix(question.length)), size: Int64(bytes.count))
            }
        }
    }

    var registration: RemoteSystemAppRegistration {
        let files = AppService("files") { connection, _ in
            try await connection.respond { request in
                let message = request.message
                let question = Question(
                    type: message["Type"]?.string ?? "",
                    path: message["path"]?.string ?? "",
                    after: message["after"]?.string,
                    offset: message["offset"]?.int ?? 0,
                    length: message["length"]?.int ?? 0
                )
                let answer = self.state.withLock { state in
                    state.asked[question.type, default: 0] += 1
                    return state.answer
                }
                return try answer(question)
            }
        }
        return RemoteSystemAppRegistration(appID: "org.device-relay.agent", services: [files])
    }

    // MARK: Answers

    static func file(_ name: String, size: Int64 = 4, etag: String = "1") -> FileServiceMessages.Entry {
        FileServiceMessages.Entry(name: name, kind: .file, size: size, modified: .now, etag: etag)
    }

    static func folder(_ name: String) -> FileServiceMessages.Entry {
        FileServiceMessages.Entry(name: name, kind: .folder, size: 0, modified: .now, etag: "1")
    }

    static func stat(_ kind: FileServiceMessages.Kind, size: Int64 = 4, etag: String = "1") throws -> ValueSet {
        let entry = FileServiceMessages.Entry(name: "", kind: kind, size: size, modified: .now, etag: etag)
        return try ValueSetEncoder().encode(FileServiceMessages.Stat.Response(entry: entry))
    }

    static func list(_ entries: [FileServiceMessages.Entry], more: Bool = false) throws -> ValueSet {
        try ValueSetEncoder().encode(FileServiceMessages.List.Response(entries: entries, more: more))
    }

    static func read(_ data: [UInt8], size: Int64 = 4, etag: String = "1") throws -> ValueSet {
        try ValueSetEncoder().encode(FileServiceMessages.Read.Response(data: data, size: size, etag: etag))
    }
}

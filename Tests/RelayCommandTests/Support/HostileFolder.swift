// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import NIOCore
import RelayProtocol
import Synchronization

@testable import RelayAgent

/// An app service `files` with the answers of an attacker.
final class HostileFolder: Sendable {
    /// A request, or for the type `send` one file of it.
    struct Question: Sendable {
        var type: String
        var path: String
        var after: String?
    }

    typealias Answer = @Sendable (Question) throws -> ValueSet
    /// The frames for the files of a request, in place of those that the answers give.
    typealias Frames = @Sendable ([FileServiceMessages.Send.File]) -> [BulkFrame]

    private struct State {
        var answer: Answer = { _ in ValueSet() }
        var frames: Frames?
        var asked: [String: Int] = [:]
    }

    private let state = Mutex(State())

    /// The number of calls of a type since the answers changed.
    func count(of type: String) -> Int { state.withLock { $0.asked[type] ?? 0 } }

    func answer(_ answer: @escaping Answer, frames: Frames? = nil) { state.withLock { $0 = State(answer: answer, frames: frames) } }

    /// Answers with these folders by path, compared by bytes. Every other path is an empty folder, and every file has the same content.
    func answer(
        folders: [(path: String, entries: [FileServiceMessages.Entry])],
        content: String = "evil",
        frames: Frames? = nil,
        onSend: @escaping @Sendable () throws -> Void = {}
    ) {
        let bytes = Array(content.utf8)
        let answers: Answer = { question in
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
                try onSend()
                return Self.content(bytes)
            }
        }
        answer(answers, frames: frames)
    }

    var registration: RemoteSystemAppRegistration {
        let files = AppService(expectingStreams: "files") { connection, caller, streams in
            let outbound = OneShot<NIOAsyncChannelOutboundWriter<ByteBuffer>>()
            try await streams.expecting(from: caller.endpoint) { expected in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask {
                        try? await expected.stream()?.use { inbound, writer in
                            outbound.settle(writer)
                            for try await _ in inbound { break }
                        }
                    }
                    defer { group.cancelAll() }
                    try await connection.respond { request in
                        let message = request.message
                        switch message["Type"]?.string {
                        case "content": return ["token": .data(expected.token.secret.exposed)]
                        case "send": return try await self.send(message, over: outbound)
                        default:
                            return try self.answer(
                                Question(
                                    type: message["Type"]?.string ?? "",
                                    path: message["path"]?.string ?? "",
                                    after: message["after"]?.string
                                )
                            )
                        }
                    }
                }
            }
        }
        return RemoteSystemAppRegistration(appID: "org.device-relay.agent", services: [files])
    }

    private func answer(_ question: Question) throws -> ValueSet {
        let answer = state.withLock { state in
            state.asked[question.type, default: 0] += 1
            return state.answer
        }
        return try answer(question)
    }

    private func send(_ message: ValueSet, over outbound: OneShot<NIOAsyncChannelOutboundWriter<ByteBuffer>>) async throws -> ValueSet {
        let files = try ValueSetDecoder().decode(FileServiceMessages.Send.self, from: message).files
        var (frames, failed) = ([BulkFrame](), [FileServiceMessages.Failed]())
        if let scripted = state.withLock({ $0.frames }) {
            frames = scripted(files)
        } else {
            for file in files {
                let answer = try answer(Question(type: "send", path: file.path))
                if let problem = answer["problem"]?.string.flatMap(FileServiceMessages.Problem.init) {
                    frames.append(.abandoned(entry: file.entry))
                    failed.append(.init(entry: file.entry, problem: problem))
                } else {
                    frames += Self.frames(file.entry, answer["data"]?.data ?? [])
                }
            }
        }
        var buffer = ByteBuffer()
        for frame in frames { frame.write(to: &buffer) }
        try await outbound.wait()?.write(buffer)
        return try ValueSetEncoder().encode(FileServiceMessages.Send.Response(failed: failed))
    }

    /// A whole file.
    static func frames(_ entry: UInt32, _ content: [UInt8]) -> [BulkFrame] {
        (content.isEmpty ? [] : [.data(entry: entry, offset: 0, ByteBuffer(bytes: content))])
            + [.end(entry: entry, size: UInt64(content.count), Digest256(hashing: content))]
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

    static func content(_ data: [UInt8]) -> ValueSet { ["data": .data(data)] }
}

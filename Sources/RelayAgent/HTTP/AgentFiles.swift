// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import NIOCore
import NIOHTTP1
import RelayProtocol

/// The folder that another device shares, by the running agent.
struct AgentFiles: RemoteFiles, RemoteReceiving {
    private let agent: AgentClient
    private let target: String
    /// Names the folder.
    let folder: Fetch.Result

    /// - Parameter target: A device, or one of its apps: `DEVICE/APP`.
    static func find(_ target: String, by agent: AgentClient) async throws -> AgentFiles {
        let request = APIRequest(.get, segments: ["files", target], query: [("stat", "true")])
        let body = try await agent.answer(to: request)
        return AgentFiles(agent: agent, target: target, folder: try JSONText.decoder.decode(Fetch.Result.self, from: Data(body)))
    }

    private func request(_ path: String, query: [(name: String, value: String)] = []) throws -> APIRequest {
        let names: [EntryName]
        // What is no path cannot be asked for.
        do { names = try SharedFolder.names(path) } catch { throw RemoteFolder.error(error.problem, path) }
        var request = APIRequest(.get, segments: ["files", target] + names.map(\.text), query: query)
        // A slow device may take that long for an answer.
        request.patience = .seconds(120)
        request.isRepeated = true
        return request
    }

    private func answer(_ path: String, query: [(name: String, value: String)]) async throws -> Fetch.Result {
        try JSONText.decoder.decode(Fetch.Result.self, from: Data(try await agent.answer(to: try request(path, query: query))))
    }

    func entry(_ path: String) async throws -> RemoteEntry {
        guard !path.isEmpty else {
            // The folder itself.
            return try RemoteEntry(.init(name: "", kind: .folder, size: 0, modified: .distantPast, etag: ""), path)
        }
        guard let entry = try await answer(path, query: [("stat", "true")]).entry else { throw Listing.invalid(path, "there is no entry") }
        return try RemoteEntry(try Self.message(entry, path), path)
    }

    private static func message(_ entry: Fetch.Entry, _ path: String) throws -> FileServiceMessages.Entry {
        guard let kind = FileServiceMessages.Kind(rawValue: entry.kind) else { throw Listing.invalid(path, "a kind is unknown") }
        return .init(name: entry.name, kind: kind, size: entry.size, modified: entry.modified, etag: entry.etag ?? "")
    }

    func next(_ listing: inout Listing) async throws -> RemoteFolder.Page? {
        guard !listing.isAtEnd else { return nil }
        let start = ContinuousClock.now
        let page = try await answer(listing.path, query: listing.after.map { [("after", $0.text)] } ?? [])
        guard let entries = page.entries else { throw RemoteFolder.error(.notAFolder, listing.path) }
        let messages = try entries.map { try Self.message($0, listing.path) }
        let checked = try listing.add(messages, more: page.more ?? false, waited: .now - start)
        let left = (page.leftOut ?? []).map { LeftOut($0.path, AgentError($0.code, $0.message, .incomplete), count: $0.count ?? 1) }
        return RemoteFolder.Page(entries: checked, leftOut: left)
    }

    func receiving(_ body: (any RemoteReceiving) async throws -> Void) async throws { try await body(self) }

    func receive(
        _ files: [(path: String, entry: RemoteEntry)],
        have: [ShareMessages.Have],
        into taker: any BulkTaking
    ) async throws -> [Int: FileServiceMessages.Problem] {
        let have = Dictionary(have.map { (Int($0.entry), $0) }, uniquingKeysWith: { $1 })
        var problems: [Int: FileServiceMessages.Problem] = [:]
        for (number, file) in files.enumerated() {
            problems[number] = try await receive(UInt32(number), file.path, file.entry, have[number], into: taker)
        }
        return problems
    }

    private func receive(
        _ number: UInt32,
        _ path: String,
        _ entry: RemoteEntry,
        _ have: ShareMessages.Have?,
        into taker: any BulkTaking
    ) async throws -> FileServiceMessages.Problem? {
        var headers: HTTPHeaders = ["TE": "trailers", "If-Match": "\"\(entry.etag)\""]
        if let have { headers.add(name: FileRequest.resumeField, value: "\(have.length); \(FileRequest.text(have.digest))") }
        var answer = FileAnswer(number, entry, have)
        try await agent.stream(try request(path), headers) { part in
            let frames = try answer.take(part)
            if !frames.isEmpty { try await taker.take(frames) }
        }
        return answer.problem
    }
}

/// Makes the frames of a bulk stream from the agent's answer about one file.
private struct FileAnswer {
    private let number: UInt32
    private let entry: RemoteEntry
    private let have: ShareMessages.Have?
    private var status = 0
    private var position: Int64 = 0
    private var digest: Digest256?
    private var failure: [UInt8] = []
    private(set) var problem: FileServiceMessages.Problem?

    init(_ number: UInt32, _ entry: RemoteEntry, _ have: ShareMessages.Have?) {
        (self.number, self.entry, self.have) = (number, entry, have)
    }

    private static let largestFailure = 64 << 10

    mutating func take(_ part: HTTPClientResponsePart) throws -> [BulkFrame] {
        switch part {
        case .head(let head):
            status = Int(head.status.code)
            position = status == 200 ? 0 : have?.length ?? 0
            digest = head.headers.first(name: FileRequest.digestField).flatMap(FileRequest.digest)
            return []
        case .body(let data):
            guard status == 200 || status == 206 else {
                guard data.readableBytes <= Self.largestFailure - failure.count else { throw AgentFiles.brokenOff }
                failure += data.readableBytesView
                return []
            }
            guard data.readableBytes > 0 else { return [] }
            defer { position += Int64(data.readableBytes) }
            return [.data(entry: number, offset: UInt64(position), data)]
        case .end(let trailers):
            guard (200..<300).contains(status) else { return try failed() }
            if let text = trailers?.first(name: FileRequest.problemField) {
                problem = FileServiceMessages.Problem(rawValue: text)
                // A digest that no content has: the file arrived damaged.
                guard problem == nil else { return [.abandoned(entry: number)] }
                return [.end(entry: number, size: UInt64(entry.size), Digest256(hashing: Array(FileRequest.damaged.utf8)))]
            }
            guard let digest = trailers?.first(name: FileRequest.digestField).flatMap(FileRequest.digest) ?? digest else {
                throw AgentFiles.brokenOff
            }
            return [.end(entry: number, size: UInt64(entry.size), digest)]
        }
    }

    private mutating func failed() throws -> [BulkFrame] {
        let answer = AgentClient.problem(status, failure)
        guard let code = (answer as? AgentError)?.code, let problem = RemoteFolder.problem(code) else { throw answer }
        self.problem = problem
        return [.abandoned(entry: number)]
    }
}

extension AgentFiles {
    static let brokenOff = AppServiceError(.remoteSystemUnavailable, message: "the connection to the device broke off")
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import RelayProtocol

/// The folders that other devices share.
extension APIRoutes {
    var fileRoutes: [APIRoute] {
        [
            APIRoute(.get, "/v1/files/{device}", .scope(.files), file),
            APIRoute(.head, "/v1/files/{device}", .scope(.files), file),
            APIRoute(.get, "/v1/files/{device}/{path}", .scope(.files), file),
            APIRoute(.head, "/v1/files/{device}/{path}", .scope(.files), file),
        ]
    }

    private func file(_ exchange: APIExchange) async throws -> Response {
        let names = try exchange.names()
        let device = try exchange.parameter("device")
        let target = exchange.query("app").map { "\(device)/\($0)" } ?? device
        let isStat = exchange.query("stat") == "true"
        let answer: () async throws -> (Response, device: String?, answer: String) = {
            try await performing {
                try await local.waitForDevices()
                let (system, app) = try await local.sharedFolder(target)
                try exchange.principal.require(.files, .init(device: "\(system.id)"))
                let folder = Fetch.Result(system, app)
                // Which app shares the folder needs no connection to it.
                if isStat, names.isEmpty { return (try exchange.json(folder), folder.device, "found") }
                let path = names.joined(separator: "/")
                guard names.allSatisfy({ EntryName($0) != nil }) else { throw RemoteFolder.error(.notAllowed, path) }
                return try await Self.retriable {
                    let service = try await local.open(sharedFolder: app)
                    do {
                        let (response, answer) = try await self.answer(exchange, path, of: folder, by: service, isStat: isStat)
                        return (response, folder.device, answer)
                    } catch {
                        service.connection.close()
                        throw error
                    }
                }
            }
        }
        return isStat ? try await answer().0 : try await audited(exchange, "files", answer)
    }

    /// Tells the client which failures may be over soon.
    private static func retriable<Result>(_ body: () async throws -> Result) async throws -> Result {
        do {
            return try await body()
        } catch  where Fetch.isBrokenOff(error) {
            let failure = AgentError(error)
            throw APIRefusal(failure.httpStatus, failure, retryAfter: 1)
        }
    }

    /// - Parameter service: Closed by this method, or at the end of the content.
    private func answer(
        _ exchange: APIExchange,
        _ path: String,
        of folder: Fetch.Result,
        by service: BulkConnection,
        isStat: Bool
    ) async throws -> (Response, String) {
        var result = folder
        result.path = DisplayText.sanitized(path)
        let remote = RemoteFolder(connection: service.connection)
        let entry = try await remote.entry(path)
        if isStat {
            service.connection.close()
            result.entry = Fetch.Entry(Self.lastName(of: path), entry, etag: true)
            return (try exchange.json(result), "found")
        }
        guard entry.kind == .file else {
            let after = try exchange.query("after").map { text in
                guard let name = EntryName(text) else { throw AgentError("usage", "after is the name of an entry", .usage) }
                return name
            }
            var listing = Listing(path, .whole, after: after)
            let page = try await remote.next(&listing)
            service.connection.close()
            result.entries = page?.entries.map { Fetch.Entry($0.name.text, $0.entry, etag: true) } ?? []
            if let left = page?.leftOut, !left.isEmpty { result.leftOut = left.map(Fetch.Result.Omission.init) }
            if !listing.isAtEnd { result.more = true }
            return (try exchange.json(result), "listed")
        }
        let request = FileRequest(exchange.request, entry)
        guard let slot = downloads.take() else {
            let what = "\(Self.mostDownloads) files are read at once; try again later"
            throw APIRefusal(429, AgentError("limitExceeded", what, .failed), retryAfter: 1)
        }
        let (response, isRead) = try await request.response { start in
            FileStream(service, path, entry, from: start, slot: slot)
        } mayRead: {
            [principal = exchange.principal, store, console] in
            try await principal.isValid(in: store, console)
        } removals: { [events] in
            events.removals
        }
        if !isRead { service.connection.close() }
        return (response, isRead ? "read" : "\(response.status.code)")
    }

    private static func lastName(of path: String) -> String {
        path.utf8.split(separator: UInt8(ascii: "/")).last.map { String(decoding: $0, as: UTF8.self) } ?? ""
    }
}

extension APIExchange {
    /// The names of the rest of the path, each decoded once. A separator in one of them makes it no name.
    fileprivate func names() throws -> [String] {
        guard let rest = context.parameters.get(String(Parameters.recursiveCaptureKey)), !rest.isEmpty else { return [] }
        return try rest.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map { part in
            guard let name = String(decoding: part, as: UTF8.self).removingPercentEncoding else {
                throw AgentError("badRequest", "the path is not valid", .usage)
            }
            return name
        }
    }
}

extension Principal {
    /// Whether its token has neither expired nor been removed.
    func isValid(in store: AgentStore, _ console: ConsoleDoor) async throws -> Bool {
        switch self {
        case .owner: true
        case .console(let session): console.isLive(session.id)
        case .token(let token): try await store.tokens().contains { $0.id == token.id }
        case .stranger: false
        }
    }
}

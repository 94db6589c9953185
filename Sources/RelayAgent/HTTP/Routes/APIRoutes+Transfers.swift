// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import HTTPTypes
import Hummingbird
import RelayProtocol

/// What is sent to other devices. No route takes a path of this machine.
extension APIRoutes {
    var transferRoutes: [APIRoute] {
        [
            APIRoute(.get, "/v1/transfers", .scope(.share), transfers),
            APIRoute(.post, "/v1/transfers", .scope(.share), addTransfer),
            APIRoute(.get, "/v1/transfers/{id}", .scope(.share)) { try $0.json(try transfer($0).result) },
            APIRoute(.delete, "/v1/transfers/{id}", .scope(.share), cancelTransfer),
            APIRoute(.put, "/v1/transfers/{id}/entries/{entry}", .scope(.share), putEntry),
        ]
    }

    private struct TransferList: Encodable {
        var transfers: [Transfer.Result]
    }

    private func transfers(_ exchange: APIExchange) async throws -> Response {
        try exchange.json(TransferList(transfers: transfers.visible(to: exchange.principal).map(\.result)))
    }

    private func transfer(_ exchange: APIExchange) throws -> Transfer {
        let id = try exchange.parameter("id")
        guard let transfer = transfers.visible(to: exchange.principal).first(where: { $0.id == id }) else {
            throw AgentError("notFound", "there is no such transfer", .notFound)
        }
        return transfer
    }

    /// The largest file, in bytes: what all programs read exactly in JSON.
    private static let largestFile = Double(1 << 53)

    private static func part(_ json: JSONValue) throws(JSONError) -> TransferPart {
        let members = try json.object().map(\.key)
        guard members.sorted() == ["name", "size"] else { throw .malformed("an entry has a name and a size") }
        let (text, size): (String, Double) = (try json.member("name"), try json.member("size"))
        guard let name = EntryName(text)?.composed, EntryName(name.text) != nil else {
            throw .malformed("a name is not that of one file")
        }
        guard size >= 0, size <= largestFile, let bytes = Int64(exactly: size) else {
            throw .malformed("a size is a whole number of bytes, at most 2^53")
        }
        return TransferPart(name: name, size: bytes)
    }

    private func addTransfer(_ exchange: APIExchange) async throws -> Response {
        let body = try await exchange.body(fields: ["device", "app", "entries", "uri", "text"])
        let target = try body.target()
        let entries: [JSONValue] = try body.optional("entries") ?? []
        let parts: [TransferPart]
        do throws(JSONError) {
            parts = try entries.map(Self.part)
        } catch {
            throw AgentError("invalidBody", "the body: \(error)", .usage)
        }
        var notes: [NearShareItem] = []
        if let uri: String = try body.optional("uri") {
            do throws(LaunchURIError) { notes.append(.uri(try LaunchURI(uri))) } catch {
                throw AgentError("invalidURI", "the URI: \(error)", .usage)
            }
        }
        if let text: String = try body.optional("text") { notes.append(.text(text)) }
        guard !parts.isEmpty || !notes.isEmpty else {
            throw AgentError("invalidBody", "there is nothing to send: give entries, uri or text", .usage)
        }
        guard Set(parts.map(\.name)).count == parts.count else {
            throw AgentError("invalidBody", "two entries have the same name", .usage)
        }
        guard parts.count <= ShareLimits.tops else {
            throw AgentError("tooLarge", "one transfer has at most \(ShareLimits.tops) entries", .usage)
        }
        return try await audited(exchange, "transfer") {
            let transfer = try await performing {
                try await local.waitForDevices()
                let receiver: (system: RemoteSystem, app: RemoteSystemApp)
                do { receiver = try await local.receiver(target) } catch let error as ReceiverUnknown { throw error.reason }
                try exchange.principal.require(.share, .init(device: "\(receiver.system.id)"))
                try local.checkIsNotOff(receiver.app)
                return try transfers.add {
                    let now = Int64(Date.now.timeIntervalSince1970 * 1_000)
                    return Transfer(parts, notes, modified: now, to: receiver, of: exchange.principal.id, on: local)
                }
            }
            let headers: HTTPFields = [.location: "/v1/transfers/\(transfer.id)"]
            return (try exchange.json(transfer.result, status: .created, headers: headers), "\(transfer.system.id)", "begun")
        }
    }

    private func cancelTransfer(_ exchange: APIExchange) async throws -> Response {
        let transfer = try transfer(exchange)
        return try await audited(exchange, "transfer cancel", device: "\(transfer.system.id)") {
            guard !transfer.hasEnded else { throw TransferPart.ended }
            transfer.cancel()
            await transfer.waitForEnd()
            return (try exchange.json(transfer.result), nil, transfer.result.state)
        }
    }

    private func putEntry(_ exchange: APIExchange) async throws -> Response {
        let transfer = try transfer(exchange)
        let text = try exchange.parameter("entry")
        guard let number = Int(text), transfer.parts.indices.contains(number) else {
            throw AgentError("notFound", "the transfer has no such entry", .notFound)
        }
        let part = transfer.parts[number]
        guard !transfer.hasEnded else { throw TransferPart.ended }
        guard !part.isOffered else {
            throw APIRefusal(409, AgentError("entrySent", "the content of this entry was sent already", .usage))
        }
        // Contents go on in their order, and nothing is kept meanwhile.
        guard number == 0 || transfer.parts[number - 1].hasEnded else {
            throw APIRefusal(409, AgentError("entryNotNext", "send the entries one after the other", .usage))
        }
        guard let length = exchange.request.headers[.contentLength] else {
            throw APIRefusal(411, AgentError("lengthMissing", "send Content-Length: \(part.size)", .usage))
        }
        guard Int64(length) == part.size else {
            throw AgentError("sizeDiffers", "the entry was announced with \(part.size) bytes", .usage)
        }
        try await part.send(exchange.request.body)
        return Response(status: .noContent, headers: [.cacheControl: "no-store"])
    }
}

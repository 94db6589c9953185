// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import RelayProtocol

/// A request for the content of a file.
struct FileRequest {
    /// The SHA-256 of the whole content (RFC 9530), a trailer.
    static let digestField = "Repr-Digest"
    /// Why the content is not whole, a trailer: a `FileServiceMessages.Problem`, or `damaged`.
    static let problemField = "File-Problem"
    static let damaged = "damaged"
    /// What the client has: `LENGTH; sha-256=:BASE64:`.
    static let resumeField = "Resume-From"

    private let request: Request
    private let entry: RemoteEntry
    private let condition: FileCondition
    /// Whether the client reads trailers. They take the place of the length.
    private let takesTrailers: Bool

    init(_ request: Request, _ entry: RemoteEntry) {
        (self.request, self.entry) = (request, entry)
        let fields = FileCondition.Fields(
            ifMatch: request.header("If-Match"),
            ifNoneMatch: request.header("If-None-Match"),
            ifRange: request.header("If-Range"),
            range: request.method == .get ? request.header("Range") : nil
        )
        condition = FileCondition(fields, tag: entry.tag, size: entry.size)
        takesTrailers = request.header("TE")?.lowercased().contains("trailers") ?? false
    }

    /// - Parameters:
    ///   - open: Begins to read the content.
    ///   - mayRead: Whether the client still has a valid credential.
    ///   - removals: How often a credential was removed.
    /// - Returns: The answer, and whether it has content.
    func response(
        _ open: (FileStream.Start) -> FileStream,
        mayRead: @escaping @Sendable () async throws -> Bool,
        removals: @escaping @Sendable () -> Int64
    ) async throws -> (Response, Bool) {
        let part: Range<Int64>
        switch condition {
        case .changed: throw APIRefusal(412, AgentError("fileChanged", "the file is another one by now", .failed))
        case .notModified: return (Response(status: .notModified, headers: headers(length: nil)), false)
        case .unsatisfiable:
            let failure = APIProblem(AgentError("rangeInvalid", "the file has \(entry.size) bytes", .usage), status: 416)
            return (try APIErrors.response(failure, [.contentRange: "bytes */\(entry.size)"]), false)
        case .whole: part = 0..<entry.size
        case .part(let range): part = range
        }
        guard request.method == .get else { return (Response(status: .ok, headers: headers(length: entry.size)), false) }
        guard let have = try have() else {
            let isPart = condition != .whole
            let stream = open(.offset(part.lowerBound))
            _ = try await stream.begin()
            let status = isPart ? HTTPResponse.Status.partialContent : .ok
            return (answer(status, part, stream, mayRead, removals), true)
        }
        let stream = open(.have(have))
        let start = try await stream.begin()
        if start == entry.size, case .end(let digest) = try await stream.next() {
            var headers = headers(length: nil)
            if let name = HTTPField.Name(Self.digestField) { headers[name] = Self.text(digest) }
            return (Response(status: .noContent, headers: headers), false)
        }
        return (answer(start == 0 ? .ok : .partialContent, start..<entry.size, stream, mayRead, removals), true)
    }

    /// What the client has already.
    private func have() throws -> ShareMessages.Have? {
        guard let text = request.header(Self.resumeField) else { return nil }
        let parts = text.split(separator: ";", maxSplits: 1)
        guard parts.count == 2, let length = Int64(parts[0]), length > 0, length <= entry.size,
            let digest = Self.digest(parts[1].trimmingCharacters(in: .whitespaces))
        else { throw AgentError("usage", "\(Self.resumeField) is not valid", .usage) }
        return ShareMessages.Have(entry: 0, length: length, digest: digest)
    }

    static func text(_ digest: Digest256) -> String { "sha-256=:\(Base64.standard.encode(digest.bytes)):" }

    static func digest(_ text: String) -> Digest256? {
        guard text.hasPrefix("sha-256=:"), text.hasSuffix(":"), text.utf8.count > 10 else { return nil }
        return Base64.standard.decode(text.dropFirst(9).dropLast()).flatMap { Digest256(bytes: $0) }
    }

    private func headers(length: Int64?) -> HTTPFields {
        var headers: HTTPFields = [
            .contentType: "application/octet-stream", .contentDisposition: "attachment", .contentSecurityPolicy: "sandbox",
            .xContentTypeOptions: "nosniff", .cacheControl: "no-store", .eTag: "\"\(entry.tag)\"", .acceptRanges: "bytes",
        ]
        if let length { headers[.contentLength] = "\(length)" }
        return headers
    }

    private func answer(
        _ status: HTTPResponse.Status,
        _ part: Range<Int64>,
        _ stream: FileStream,
        _ mayRead: @escaping @Sendable () async throws -> Bool,
        _ removals: @escaping @Sendable () -> Int64
    ) -> Response {
        var headers = headers(length: takesTrailers ? nil : part.upperBound - part.lowerBound)
        if status == .partialContent { headers[.contentRange] = "bytes \(part.lowerBound)-\(part.upperBound - 1)/\(entry.size)" }
        if takesTrailers { headers[.trailer] = "\(Self.digestField), \(Self.problemField)" }
        let content = FileContent(
            stream: stream,
            part: part,
            size: entry.size,
            hasTrailers: takesTrailers,
            mayRead: mayRead,
            removals: removals
        )
        return Response(status: status, headers: headers, body: .init { try await content.write(to: &$0) })
    }
}

/// The body of an answer with content.
private struct FileContent: Sendable {
    let stream: FileStream
    let part: Range<Int64>
    let size: Int64
    let hasTrailers: Bool
    let mayRead: @Sendable () async throws -> Bool
    let removals: @Sendable () -> Int64

    @concurrent func write(to writer: inout some ResponseBodyWriter) async throws {
        let trailers: HTTPFields?
        do {
            let digest = try await writeContent(to: &writer)
            trailers = digest.map { [FileRequest.digestField: FileRequest.text($0)] }.map(Self.fields)
        } catch let error as AgentError where hasTrailers {
            let problem = error.code == "fileDamaged" ? FileRequest.damaged : RemoteFolder.problem(error.code)?.rawValue
            // Without its end, the client knows that the content is not whole.
            guard let problem else { throw error }
            trailers = Self.fields([FileRequest.problemField: problem])
        }
        try await writer.finish(hasTrailers ? trailers : nil)
    }

    private static func fields(_ all: [String: String]) -> HTTPFields {
        var fields = HTTPFields()
        for (name, value) in all { if let name = HTTPField.Name(name) { fields[name] = value } }
        return fields
    }

    /// - Returns: The digest of the whole content, if the end was read.
    @concurrent private func writeContent(to writer: inout some ResponseBodyWriter) async throws -> Digest256? {
        var position = part.lowerBound
        var seen = removals()
        // The last piece waits until the digest is right. A client without trailers then misses it otherwise.
        var held: ByteBuffer?
        while position < part.upperBound || part.upperBound == size {
            // A removed token ends what it reads.
            let now = removals()
            if now != seen {
                guard try await mayRead() else { throw CancellationError() }
                seen = now
            }
            switch try await stream.next() {
            case .end(let digest):
                if let held { try await writer.write(held) }
                return digest
            case .data(var offset, let data):
                for var buffer in data {
                    // A device of an earlier version begins before the range.
                    let early = min(Int64(buffer.readableBytes), max(0, position - offset))
                    buffer.moveReaderIndex(forwardBy: Int(early))
                    offset += early
                    let count = min(Int64(buffer.readableBytes), part.upperBound - position)
                    offset += Int64(buffer.readableBytes)
                    guard count > 0, let bytes = buffer.readSlice(length: Int(count)) else { continue }
                    position += count
                    if let held { try await writer.write(held) }
                    held = bytes
                }
            }
        }
        if let held { try await writer.write(held) }
        return nil
    }
}

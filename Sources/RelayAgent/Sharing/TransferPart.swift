// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Hummingbird
import NIOCore
import RelayProtocol

/// The content of one file that a client of the API sends. It goes on to the other device as it comes.
final class TransferPart: Sendable {
    private struct State: Sendable {
        var body: RequestBody?
        var isRead = false
        var received: Int64 = 0
        var end: Result<Void, AgentError>?
    }

    /// How long a content may keep the transfer waiting, once it is its turn.
    static let patience = Duration.seconds(60)

    let name: EntryName
    /// In bytes.
    let size: Int64
    private let state = CurrentValue(State())

    init(name: EntryName, size: Int64) { (self.name, self.size) = (name, size) }

    var received: Int64 { state.value.received }
    /// Whether a client sends it, or has sent it.
    var isOffered: Bool { state.value.body != nil }
    var hasEnded: Bool { state.value.end != nil }

    /// Gives all bytes to a closure, as they come.
    /// - Throws: `TransferPart.Late` without a client in time.
    func read(_ take: (ByteBuffer) async throws -> Void) async throws {
        guard await state.first(within: Self.patience, where: { $0.body != nil || $0.end != nil }) != nil else {
            try Task.checkCancellation()
            throw Late()
        }
        var body: RequestBody?
        state.update { state in
            guard state.end == nil else { return }
            (body, state.isRead) = (state.body, true)
        }
        guard let body else { throw Self.ended }
        do {
            for try await data in body {
                try await take(data)
                state.update { $0.received += Int64(data.readableBytes) }
            }
            guard received == size else { throw AgentError("contentIncomplete", "the content ended too early", .usage) }
            state.update { $0.end = .success(()) }
        } catch {
            let failure = (error as? AgentError) ?? AgentError("contentIncomplete", "the content did not go on to the device", .failed)
            state.update { $0.end = .failure(failure) }
            throw error
        }
    }

    struct Late: Error {}

    /// Takes the content from a client, and waits until all of it has gone on.
    func send(_ body: RequestBody) async throws {
        var isTaken = false
        state.update { state in
            guard state.body == nil, state.end == nil else { return }
            (state.body, isTaken) = (body, true)
        }
        guard isTaken else {
            if case .failure(let failure) = state.value.end { throw failure }
            throw APIRefusal(409, AgentError("entrySent", "the content of this entry was sent already", .usage))
        }
        // The body belongs to the request, which must not end while another task reads it, even if it is cancelled. The end of the transfer
        // ends this task.
        let state = state
        guard let end = await Task(operation: { await state.first(where: { $0.end != nil })?.end }).value else { throw CancellationError() }
        try end.get()
    }

    static let ended = AgentError("ended", "the transfer has ended", .usage)

    /// Ends what nobody reads. What is read ends with its reader.
    func end() { state.update { if !$0.isRead, $0.end == nil { $0.end = .failure(Self.ended) } } }
}

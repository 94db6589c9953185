// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import NIOCore
import RelayProtocol

/// The content of one file of another device, as it arrives. What has arrived at once is all that is kept, so a slow reader slows the other
/// device down.
final class FileStream: Sendable {
    enum Start: Sendable {
        case offset(Int64)
        /// The content goes on after what the reader has, if that is the beginning of the file. Otherwise it begins at 0.
        case have(ShareMessages.Have)
    }

    fileprivate enum Piece: Sendable {
        case data(offset: Int64, [ByteBuffer])
        /// The SHA-256 that the other device states.
        case end(Digest256)
    }

    fileprivate struct State: Sendable {
        var piece: Piece?
        /// Why nothing more arrives.
        var failure: (any Error)?
    }

    private let state: CurrentValue<State>
    private let task: Task<Void, Never>
    private let slot: Slots.Slot
    private let size: Int64

    /// - Parameter service: A connection to the service `files`. It is closed at the end.
    init(_ service: BulkConnection, _ path: String, _ entry: RemoteEntry, from start: Start, slot: Slots.Slot) {
        let state = CurrentValue(State())
        (self.state, self.slot, size) = (state, slot, entry.size)
        task = Task {  // Owner: this stream; `deinit` cancels it
            defer { service.connection.close() }
            do {
                try await Self.receive(service, path, entry, start, state)
            } catch {
                state.update { $0.failure = error }
            }
        }
    }

    deinit { task.cancel() }

    private static func receive(
        _ service: BulkConnection,
        _ path: String,
        _ entry: RemoteEntry,
        _ start: Start,
        _ state: CurrentValue<State>
    ) async throws {
        let stream = try await RemoteContent.stream(service)
        try await BulkReceiver.receiving(over: stream) { receiver in
            let content = RemoteContent(service.connection, receiver)
            let taker = FilePieces(path, size: entry.size, start, state)
            let problems =
                switch start {
                case .offset(let offset):
                    try await content.receive([(path, entry)], offset: offset == 0 ? nil : offset, into: taker)
                case .have(let have): try await content.receive([(path, entry)], have: [have], into: taker)
                }
            guard await !taker.isAbandoned else { throw RemoteFolder.error(problems[0], path) }
        }
    }

    private func piece() async throws -> Piece {
        guard let state = await state.first(where: { $0.piece != nil || $0.failure != nil }) else { throw CancellationError() }
        if let piece = state.piece { return piece }
        throw state.failure ?? CancellationError()
    }

    /// Waits for the beginning.
    /// - Returns: Where the content begins; the size if nothing but the end comes.
    /// - Throws: Why the other device does not send it.
    func begin() async throws -> Int64 {
        switch try await piece() {
        case .data(let offset, _): offset
        case .end: size
        }
    }

    enum Next {
        case data(offset: Int64, [ByteBuffer])
        case end(Digest256)
    }

    func next() async throws -> Next {
        let piece = try await piece()
        switch piece {
        case .data(let offset, let data):
            state.update { $0.piece = nil }
            return .data(offset: offset, data)
        case .end(let digest): return .end(digest)
        }
    }
}

/// Checks the frames of one file, and gives them to its reader one after the other.
private actor FilePieces: BulkTaking {
    private let path: String
    private let size: Int64
    private let start: FileStream.Start
    private let state: CurrentValue<FileStream.State>
    /// Where the next byte belongs; `nil` before the first.
    private var position: Int64?
    private var digest = DigestStream()
    /// Whether the digest of the other device is that of what arrives here.
    private var isChecked = true
    private(set) var isAbandoned = false

    init(_ path: String, size: Int64, _ start: FileStream.Start, _ state: CurrentValue<FileStream.State>) {
        (self.path, self.size, self.start, self.state) = (path, size, start, state)
    }

    func take(_ frames: [BulkFrame]) async throws {
        var (offset, data) = (Int64(0), [ByteBuffer]())
        for frame in frames {
            switch frame {
            case .data(0, let place, let part):
                let place = try begin(at: Int64(exactly: place) ?? -1)
                guard Int64(part.readableBytes) <= size - place else { throw Download.invalidContent }
                part.withUnsafeReadableBytes { digest.add($0) }
                position = place + Int64(part.readableBytes)
                if data.isEmpty { offset = place }
                data.append(part)
            case .end(0, _, let whole):
                if !data.isEmpty { try await give(.data(offset: offset, data)) }
                data = []
                if position == nil { _ = try begin(at: beginningOfEnd) }
                guard position ?? size == size else { throw Download.invalidContent }
                guard !isChecked || digest.digest == whole else { throw Download.damaged(path) }
                try await give(.end(whole))
            case .abandoned(0): isAbandoned = true
            default: throw Download.invalidContent
            }
        }
        if !data.isEmpty { try await give(.data(offset: offset, data)) }
    }

    /// Where a content without data begins.
    private var beginningOfEnd: Int64 { if case .have(let have) = start { have.length } else { 0 } }

    /// Checks the place of what arrives.
    private func begin(at place: Int64) throws -> Int64 {
        if let position {
            guard place == position else { throw Download.invalidContent }
            return place
        }
        switch start {
        case .offset(let offset):
            // An earlier version begins at 0.
            guard place == offset || place == 0 else { throw Download.invalidContent }
        case .have(let have):
            guard place == have.length || place == 0 else { throw Download.invalidContent }
            isChecked = place == 0
        }
        position = place
        return place
    }

    /// Waits until the reader has taken the piece.
    private func give(_ piece: FileStream.Piece) async throws {
        state.update { $0.piece = piece }
        // Nothing follows the end.
        if case .end = piece { return }
        guard await state.first(where: { $0.piece == nil }) != nil else { throw CancellationError() }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import Synchronization

/// Receives over a bulk stream what is asked for beside it, several requests at a time.
package final class BulkReceiver: Sendable {
    /// How long nothing may arrive while something is expected. The other side may have to hash what is here already.
    private static let patience = Duration.seconds(600)

    /// The entries of a request.
    private struct Batch: Sendable {
        let entries: Range<UInt32>
        /// Those whose end has not arrived.
        var open: Set<UInt32>
        let taker: any BulkTaking
        let ended = OneShot<Result<Void, any Error>>()
    }

    private struct State {
        var next: UInt32 = 0
        var batches: [Batch] = []
        /// When something arrived, or the first of the requests was made.
        var time = ContinuousClock.now
        var failure: (any Error)?
    }

    private let state = Mutex(State())

    /// Reads a stream while a closure asks for its content.
    package static func receiving<Result: Sendable>(
        over stream: BulkStream,
        _ body: (BulkReceiver) async throws -> Result
    ) async throws -> Result {
        try await stream.use { inbound, _ in
            let receiver = BulkReceiver()
            return try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await receiver.read(inbound) }
                group.addTask { await receiver.watch() }
                defer { group.cancelAll() }
                return try await body(receiver)
            }
        }
    }

    /// Expects the content of entries while a closure asks for it, and returns when all of it is taken.
    /// - Parameters:
    ///   - count: The number of entries, at least 1.
    ///   - taker: Takes their frames, in which they are counted from 0.
    ///   - ask: Asks the other side. It gets the number of the first entry in the stream, and returns when the other side has sent all.
    /// - Returns: What the other side answers.
    /// - Throws: What `ask` and the taker throw; `ShareFailure` for what was not to come; `AppServiceError` for a lost connection.
    package func expect<Answer: Sendable>(
        _ count: Int,
        into taker: any BulkTaking,
        _ ask: @escaping @Sendable (_ first: UInt32) async throws -> Answer
    ) async throws -> Answer {
        let batch = try state.withLock { state in
            if let failure = state.failure { throw failure }
            let entries = state.next..<state.next + UInt32(count)
            let batch = Batch(entries: entries, open: Set(entries), taker: taker)
            if state.batches.isEmpty { state.time = .now }
            state.batches.append(batch)
            state.next = entries.upperBound
            return batch
        }
        async let answer: Answer = {
            do {
                return try await ask(batch.entries.lowerBound)
            } catch {
                batch.ended.settle(.failure(error))
                throw error
            }
        }()
        guard let end = await batch.ended.wait() else { throw CancellationError() }
        try end.get()
        return try await answer
    }

    private static let brokenOff = AppServiceError(.remoteSystemUnavailable, message: "the connection to the device broke off")

    // MARK: The stream

    private func read(_ inbound: NIOAsyncChannelInboundStream<ByteBuffer>) async {
        do {
            _ = try await inbound.takeFrames {
                try self.note($0)
            } _: { frames in
                do {
                    try await self.take(frames)
                } catch {
                    self.fail(error)
                    throw error
                }
            }
            fail(Self.brokenOff)
        } catch let error as ShareFailure {
            fail(error)
        } catch is BulkError {
            fail(ShareFailure(.invalid))
        } catch {
            // An error of a taker is noted already.
            fail(Self.brokenOff)
        }
    }

    /// Ends the wait for a stream on which nothing arrives.
    private func watch() async {
        while true {
            let left = state.withLock { $0.batches.isEmpty ? Self.patience : Self.patience - $0.time.duration(to: .now) }
            guard left > .zero else { return fail(AppServiceError(.timedOut, message: "the other device sends nothing more")) }
            guard (try? await Task.sleep(for: left)) != nil else { return }
        }
    }

    private func fail(_ error: any Error) {
        let batches = state.withLock { state in
            state.failure = state.failure ?? error
            return state.batches
        }
        for batch in batches { batch.ended.settle(.failure(error)) }
    }

    /// Checks that a frame was to come.
    /// - Returns: Whether it is the last one of a request.
    private func note(_ frame: BulkFrame) throws -> Bool {
        try state.withLock { state in
            guard let entry = frame.entry, let number = state.batches.firstIndex(where: { $0.open.contains(entry) }) else {
                throw ShareFailure(.invalid)
            }
            state.time = .now
            guard frame.endsEntry else { return false }
            state.batches[number].open.remove(entry)
            return state.batches[number].open.isEmpty
        }
    }

    private func take(_ frames: [BulkFrame]) async throws {
        var rest = frames[...]
        while let entry = rest.first?.entry, let batch = state.withLock({ $0.batches.first { $0.entries.contains(entry) } }) {
            let own = rest.prefix { $0.entry.map(batch.entries.contains) ?? false }
            rest = rest.dropFirst(own.count)
            try await batch.taker.take(own.map { $0.counted(from: batch.entries.lowerBound) })
        }
        let ended = state.withLock { state in
            defer { state.batches.removeAll { $0.open.isEmpty } }
            state.time = .now
            return state.batches.filter(\.open.isEmpty)
        }
        for batch in ended { batch.ended.settle(.success(())) }
    }
}

extension BulkFrame {
    /// `nil` at the end of the stream.
    fileprivate var entry: UInt32? {
        switch self {
        case .data(let entry, _, _), .end(let entry, _, _), .abandoned(let entry): entry
        case .complete: nil
        }
    }

    fileprivate var endsEntry: Bool { if case .data = self { false } else { true } }

    /// - Parameter first: At most its own entry.
    fileprivate func counted(from first: UInt32) -> BulkFrame {
        switch self {
        case .data(let entry, let offset, let data): .data(entry: entry - first, offset: offset, data)
        case .end(let entry, let size, let digest): .end(entry: entry - first, size: size, digest)
        case .abandoned(let entry): .abandoned(entry: entry - first)
        case .complete: .complete
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Synchronization

/// The open questions. Each goes to all who can answer it at the same time, and the first answer counts.
final class AskBoard: Sendable {
    /// What came of an answer through the API.
    enum Outcome: Hashable, Sendable {
        case taken
        /// Somebody else was first.
        case answered
        /// Its time is over.
        case over
        case unknown
    }

    private enum Ended { case answered, over }

    private struct State {
        var open: [(ask: Ask, continuation: CheckedContinuation<Reply, Never>)] = []
        /// New devices. They wait until a person decides.
        var newDevices: [Ask] = []
        /// The latest ones that have ended.
        var ended: [(id: String, how: Ended)] = []
        /// How many can answer through the API at this moment.
        var readers = 0
        /// The time when the last one has left.
        var lastReader: ContinuousClock.Instant?

        mutating func remember(_ id: String, _ how: Ended) {
            ended.append((id, how))
            ended.removeFirst(max(0, ended.count - AskBoard.remembered))
        }
    }

    /// How many ended questions are remembered for a late answer.
    private static let remembered = 100

    private let state = Mutex(State())

    /// Counts the changes of the open questions.
    private let revision = CurrentValue(0)

    /// The number of changes so far.
    var changes: Int { revision.value }

    /// Waits for another change than those so far.
    func wait(after changes: Int) async { _ = await revision.first { $0 > changes } }

    /// Waits for another change than those so far, for a while.
    func wait(after changes: Int, within patience: Duration) async { _ = await revision.first(within: patience) { $0 > changes } }

    private func changed() { revision.update { $0 += 1 } }

    /// The open questions, the oldest first.
    var open: [Ask] { state.withLock { $0.open.map(\.ask) + $0.newDevices } }

    /// New devices, in the place of those before.
    func show(newDevices: [Ask]) {
        state.withLock { $0.newDevices = newDevices }
        changed()
    }

    /// A program that polls is away for moments.
    private static let readerPause = Duration.seconds(5)

    /// Whether a page or program is there that shows questions and may answer them.
    var hasReader: Bool {
        state.withLock { state in
            state.readers > 0 || state.lastReader.map { $0.duration(to: .now) < Self.readerPause } ?? false
        }
    }

    func readerCame() { state.withLock { $0.readers += 1 } }

    func readerLeft() {
        state.withLock { state in
            state.readers -= 1
            state.lastReader = .now
        }
    }

    /// What came of a question.
    enum Reply: Hashable, Sendable {
        case answer(AskAnswer)
        /// There is no answer in time, or the task was cancelled.
        case none
        /// There is nobody who could be asked.
        case impossible
    }

    /// Puts a question to all who can answer.
    /// - Parameter others: The answerers besides the API.
    func reply(to ask: Ask, within patience: Duration, others: [@Sendable () async -> Reply]) async -> Reply {
        guard !others.isEmpty || hasReader else { return .impossible }
        return await withTaskGroup(of: Reply.self) { group in
            group.addTask { await self.posted(ask, within: patience) }
            for other in others { group.addTask { await other() } }
            var left = others.count
            var reply = others.isEmpty ? Reply.none : .impossible
            while let next = await group.next() {
                left -= 1
                if next != .impossible { reply = next }
                if case .answer = next { break }
                // Nobody is left who could answer.
                if left <= 0, !hasReader { break }
            }
            var isAnswered = false
            if case .answer = reply { isAnswered = true }
            end(ask.id, isAnswered ? .answered : .over)
            group.cancelAll()
            return reply
        }
    }

    /// Answers a question.
    /// - Returns: What came of it.
    func take(_ answer: AskAnswer, for id: String) -> Outcome {
        let (outcome, continuation) = state.withLock { state -> (Outcome, CheckedContinuation<Reply, Never>?) in
            if let index = state.open.firstIndex(where: { $0.ask.id == id }) {
                let entry = state.open.remove(at: index)
                state.remember(id, .answered)
                return (.taken, entry.continuation)
            }
            let how = state.ended.last { $0.id == id }?.how
            return (how.map { $0 == .answered ? .answered : .over } ?? .unknown, nil)
        }
        continuation?.resume(returning: .answer(answer))
        changed()
        return outcome
    }

    private func posted(_ ask: Ask, within patience: Duration) async -> Reply {
        let limit = Task {  // Owner: this function ends it
            try? await Task.sleep(for: patience)
            if !Task.isCancelled { end(ask.id, .over) }
        }
        defer { limit.cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { add(ask, $0) }
        } onCancel: {
            end(ask.id, .over)
        }
    }

    private func add(_ ask: Ask, _ continuation: CheckedContinuation<Reply, Never>) {
        let isAdded = state.withLock { state in
            // The task can be cancelled before this.
            guard !state.ended.contains(where: { $0.id == ask.id }) else { return false }
            state.open.append((ask, continuation))
            return true
        }
        if isAdded { changed() } else { continuation.resume(returning: Reply.none) }
    }

    private func end(_ id: String, _ how: Ended) {
        let continuation = state.withLock { state in
            let entry = state.open.firstIndex { $0.ask.id == id }.map { state.open.remove(at: $0) }
            if !state.ended.contains(where: { $0.id == id }) { state.remember(id, how) }
            return entry?.continuation
        }
        guard let continuation else { return }
        continuation.resume(returning: Reply.none)
        changed()
    }
}

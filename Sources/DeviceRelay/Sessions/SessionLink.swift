// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import Synchronization

/// Passes commands from any task to a session on its event loop. Commands that several tasks enqueue are performed in one iteration of the
/// loop, in order, and are sent in one write.
final class SessionLink: Sendable {
    /// A command of a task. The frequent commands have their own case, which avoids allocating a closure.
    enum Command: Sendable {
        case request(ByteBuffer, on: SessionConnectionID, token: UInt64, timeout: Duration, SessionAsk.Continuation<SessionAsk.Response>)
        /// Without a continuation, no task waits until the response has left.
        case respond(SessionRequestID, ByteBuffer, AnswerPlace, SessionAsk.Continuation<Void>?)
        case consumed(MessageCredit)
        case other(@Sendable (SessionHandler) -> Void)
    }

    /// The bytes of unsent small responses up to which no memory of the endpoint's budget is needed.
    private static let smallAnswerBytes = 256 << 10
    /// The buffer of commands is kept up to this capacity.
    private static let keptCommands = 1_024

    private struct State {
        var commands: [Command] = []
        /// An empty array, kept to reuse its memory.
        var spare: [Command] = []
    }

    /// What happens to the session's streams.
    struct Streams: Hashable {
        /// Whether the stream leads to the peer without the relay.
        var isDirect: Bool
        var moves = 0
        /// The session waits for a stream.
        var isLost = false
        /// Nothing more happens.
        var isFinished = false
    }

    let eventLoop: any EventLoop
    private let bound: NIOLoopBound<SessionHandler>
    private let state = Mutex(State())
    private let lastToken = Atomic<UInt64>(0)
    /// The peer's share of the endpoint's memory.
    let memory: SessionMemory.Share
    private let smallAnswers = Atomic<Int>(0)
    /// How the session ended.
    let end = OneShot<SessionEnd>()

    let streams: CurrentValue<Streams>
    private let closed: EventLoopPromise<Void>

    init(handler: SessionHandler, memory: SessionMemory.Share, isDirect: Bool) {
        streams = CurrentValue(Streams(isDirect: isDirect))
        self.memory = memory
        eventLoop = handler.eventLoop
        closed = handler.eventLoop.makePromise()
        bound = NIOLoopBound(handler, eventLoop: handler.eventLoop)
    }

    /// Whether the session has a stream that leads to the peer without the relay.
    var isDirect: Bool {
        let streams = streams.value
        return streams.isDirect && !streams.isLost
    }

    /// The session. Call it on the event loop.
    var handler: SessionHandler { bound.value }

    /// Creates a token for an operation that a task waits for.
    func makeToken() -> UInt64 { lastToken.wrappingAdd(1, ordering: .relaxed).newValue }

    func enqueue(_ body: @escaping @Sendable (SessionHandler) -> Void) { enqueue(.other(body)) }

    func enqueue(_ command: Command) {
        let isFirst = state.withLock { state in
            state.commands.append(command)
            return state.commands.count == 1
        }
        if isFirst { schedule() }
    }

    // MARK: Answers

    /// The bytes of small responses that have not left.
    var unsentBytes: Int { smallAnswers.load(ordering: .relaxed) }

    /// Reserves memory for a response of this size; `nil` if it has to wait.
    func placeAtOnce(ofBytes bytes: Int) -> AnswerPlace? {
        if bytes <= SessionWire.inlineBytes, unsentBytes < Self.smallAnswerBytes {
            smallAnswers.add(bytes, ordering: .relaxed)
            return AnswerPlace(smallBytes: bytes)
        }
        return memory.answers.takeAtOnce(bytes) ? AnswerPlace(largeBytes: bytes) : nil
    }

    /// Waits for memory for a response of this size. Throws `cancelled` when the task is cancelled before.
    func place(ofBytes bytes: Int) async throws(AppServiceError) -> AnswerPlace {
        if let place = placeAtOnce(ofBytes: bytes) { return place }
        let most = memory.answers.part
        guard bytes <= most else {
            throw AppServiceError(LimitExceeded(limit: .messageBytes, allowed: most, requested: bytes))
        }
        guard await memory.answers.take(bytes) else { throw AppServiceError(.cancelled) }
        return AnswerPlace(largeBytes: bytes)
    }

    /// Subtracts small responses that have left, or that will not be sent.
    func smallAnswersLeft(_ bytes: Int) { smallAnswers.subtract(bytes, ordering: .relaxed) }

    // MARK: Enqueuing

    /// - Returns: False if the task is cancelled; then the command is dropped. If the task is cancelled later, the command that handles the
    ///   cancellation is enqueued after this one.
    func enqueueUnlessCancelled(_ command: Command) -> Bool {
        let isFirst: Bool? = state.withLock { state in
            guard !Task.isCancelled else { return nil }
            state.commands.append(command)
            return state.commands.count == 1
        }
        if isFirst == true { schedule() }
        return isFirst != nil
    }

    private func schedule() {
        eventLoop.execute { [self] in
            var commands = state.withLock { state in
                let commands = state.commands
                state.commands = state.spare
                state.spare = []
                return commands
            }
            let handler = handler
            // Removing the commands one by one avoids copies and keeps the array's memory.
            commands.reverse()
            while let command = commands.popLast() { handler.perform(command) }
            handler.performActions()
            handler.settle()
            if commands.capacity <= Self.keptCommands { state.withLock { $0.spare = commands } }
        }
    }

    // MARK: The end

    /// Returns when the session has ended and its stream is closed.
    func waitUntilClosed() async { try? await closed.futureResult.get() }

    /// The session has ended, and its last stream is closed.
    func isClosed() {
        streams.update { $0.isFinished = true }
        closed.succeed()
    }

    deinit { closed.succeed() }
}

/// The memory of responses until they have left: in the session's amount for small responses, or in the endpoint's budget.
struct AnswerPlace: Sendable {
    var smallBytes = 0
    var largeBytes = 0

    var isEmpty: Bool { smallBytes == 0 && largeBytes == 0 }

    static func += (left: inout AnswerPlace, right: AnswerPlace) {
        left.smallBytes += right.smallBytes
        left.largeBytes += right.largeBytes
    }
}

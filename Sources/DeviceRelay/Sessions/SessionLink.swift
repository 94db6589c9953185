// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import Synchronization

/// The way from any task to a session on its event loop. What several tasks want meanwhile is done in one turn of the loop, in order, and leaves
/// in one write.
final class SessionLink: Sendable {
    /// What a task wants. What every call needs has a case, which spares it the memory of a closure.
    enum Command: Sendable {
        case request(ByteBuffer, on: SessionConnectionID, token: UInt64, timeout: Duration, SessionAsk.Continuation<SessionAsk.Response>)
        /// Without a continuation no task waits until the answer has left.
        case respond(SessionRequestID, ByteBuffer, AnswerPlace, SessionAsk.Continuation<Void>?)
        case consumed(MessageCredit)
        case other(@Sendable (SessionHandler) -> Void)
    }

    /// So many bytes of small answers may be on their way before others need the endpoint's memory.
    private static let smallAnswerBytes = 256 << 10
    /// Memory for so many commands is kept.
    private static let keptCommands = 1_024

    private struct State {
        var commands: [Command] = []
        /// Empty, for its memory.
        var spare: [Command] = []
    }

    private let channel: any Channel
    private let handler: NIOLoopBound<SessionHandler>
    private let state = Mutex(State())
    private let lastToken = Atomic<UInt64>(0)
    /// What the peer has of the endpoint's memory.
    let memory: SessionMemory.Share
    private let smallAnswers = Atomic<Int>(0)
    /// How the session ended.
    let end = OneShot<SessionEnd>()

    init(channel: any Channel, handler: SessionHandler, memory: SessionMemory.Share) {
        self.channel = channel
        self.memory = memory
        self.handler = NIOLoopBound(handler, eventLoop: channel.eventLoop)
    }

    /// Names what a task waits for.
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

    /// The bytes of small answers that have not left.
    var unsentBytes: Int { smallAnswers.load(ordering: .relaxed) }

    /// A place for an answer of so many bytes, unless it has to wait for one.
    func placeAtOnce(ofBytes bytes: Int) -> AnswerPlace? {
        if bytes <= SessionWire.inlineBytes, unsentBytes < Self.smallAnswerBytes {
            smallAnswers.add(bytes, ordering: .relaxed)
            return AnswerPlace(smallBytes: bytes)
        }
        return memory.answers.takeAtOnce(bytes) ? AnswerPlace(largeBytes: bytes) : nil
    }

    /// The same, in turn. Throws `cancelled` when the task is cancelled before.
    func place(ofBytes bytes: Int) async throws(AppServiceError) -> AnswerPlace {
        if let place = placeAtOnce(ofBytes: bytes) { return place }
        let most = memory.answers.part
        guard bytes <= most else {
            throw AppServiceError(LimitExceeded(limit: .messageBytes, allowed: most, requested: bytes))
        }
        guard await memory.answers.take(bytes) else { throw AppServiceError(.cancelled) }
        return AnswerPlace(largeBytes: bytes)
    }

    /// So many bytes of small answers have left, or never will.
    func smallAnswersLeft(_ bytes: Int) { smallAnswers.subtract(bytes, ordering: .relaxed) }

    // MARK: Asking

    /// - Returns: False if the task is cancelled, and the command dropped. A command that is enqueued when the task is cancelled later
    ///   comes behind it.
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
        channel.eventLoop.execute { [self] in
            var commands = state.withLock { state in
                let commands = state.commands
                state.commands = state.spare
                state.spare = []
                return commands
            }
            let handler = handler.value
            // Taken out one by one, they are not copied, and the memory stays.
            commands.reverse()
            while let command = commands.popLast() { handler.perform(command) }
            handler.performActions()
            handler.settle()
            if commands.capacity <= Self.keptCommands { state.withLock { $0.spare = commands } }
        }
    }

    // MARK: The end

    /// Without a word, whatever is on its way.
    func closeChannel() { channel.close(promise: nil) }

    /// Returns when the channel is closed.
    func waitUntilClosed() async { try? await channel.closeFuture.get() }
}

/// Where answers count until they have left: among the session's small ones, or in the endpoint's memory.
struct AnswerPlace: Sendable {
    var smallBytes = 0
    var largeBytes = 0

    var isEmpty: Bool { smallBytes == 0 && largeBytes == 0 }

    static func += (left: inout AnswerPlace, right: AnswerPlace) {
        left.smallBytes += right.smallBytes
        left.largeBytes += right.largeBytes
    }
}

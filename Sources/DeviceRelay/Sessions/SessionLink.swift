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
        /// Without a continuation nobody waits until the answer has left.
        case respond(SessionRequestID, ByteBuffer, SingleContinuation<Result<Void, AppServiceError>>?)
        case consumed(SessionReceipt)
        case other(@Sendable (SessionHandler) -> Void)
    }

    /// So many bytes of answers may be on their way that nobody waits for.
    private static let mostUnsentBytes = 256 << 10
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
    private let answerBytes = Atomic<Int>(0)
    /// How the session ended.
    let end = OneShot<SessionEnd>()

    init(channel: any Channel, handler: SessionHandler) {
        self.channel = channel
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

    // MARK: Answers that nobody waits for

    /// The bytes of those that have not left.
    var unsentBytes: Int { answerBytes.load(ordering: .relaxed) }

    /// Whether there may be another.
    var takesAnswers: Bool { unsentBytes < Self.mostUnsentBytes }

    func enqueueAnswer(_ message: ByteBuffer, to request: SessionRequestID) {
        answerBytes.add(message.readableBytes, ordering: .relaxed)
        enqueue(.respond(request, message, nil))
    }

    /// It has left, or never will.
    func answerIsDone(_ bytes: Int) { answerBytes.subtract(bytes, ordering: .relaxed) }

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

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import Synchronization

/// The way from any task to a session on its event loop. What several tasks want meanwhile is done in one turn of the loop, in order, and leaves
/// in one write.
final class SessionLink: Sendable {
    typealias Command = @Sendable (SessionHandler) -> Void

    private struct State {
        var commands: [Command] = []
        var nextToken: UInt64 = 0
    }

    private let channel: any Channel
    private let handler: NIOLoopBound<SessionHandler>
    private let state = Mutex(State())
    /// How the session ended.
    let end = OneShot<SessionEnd>()

    init(channel: any Channel, handler: SessionHandler) {
        self.channel = channel
        self.handler = NIOLoopBound(handler, eventLoop: channel.eventLoop)
    }

    /// Names what a task waits for.
    func makeToken() -> UInt64 {
        state.withLock { state in
            state.nextToken += 1
            return state.nextToken
        }
    }

    func enqueue(_ command: @escaping Command) {
        let isFirst = state.withLock { Self.append(command, to: &$0) }
        if isFirst { schedule() }
    }

    /// - Returns: False if the task is cancelled, and the command dropped. A command that is enqueued when the task is cancelled later
    ///   comes behind it.
    func enqueueUnlessCancelled(_ command: @escaping Command) -> Bool {
        let isFirst: Bool? = state.withLock { state in Task.isCancelled ? nil : Self.append(command, to: &state) }
        if isFirst == true { schedule() }
        return isFirst != nil
    }

    private static func append(_ command: @escaping Command, to state: inout State) -> Bool {
        state.commands.append(command)
        return state.commands.count == 1
    }

    private func schedule() {
        channel.eventLoop.execute { [self] in
            let commands = state.withLock { state in
                defer { state.commands = [] }
                return state.commands
            }
            let handler = handler.value
            for command in commands { command(handler) }
            handler.settle()
        }
    }

    /// Without a word, whatever is on its way.
    func closeChannel() { channel.close(promise: nil) }

    /// Returns when the channel is closed.
    func waitUntilClosed() async { try? await channel.closeFuture.get() }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import RelayTracing

/// Runs the apps' handlers of commands, and limits their time.
final class CommandHandlers {
    enum Event {
        case ended(CommandOutcome, reply: [UInt8]?)
        case askedForTime
        case timedOut
    }

    private struct Handler {
        let started: Int64
        let cancellation: RequestCancellation
        var task: Task<Void, Never>?
        var timer: Scheduled<Void>?
    }

    private let loop: EndpointLoop
    private var handlers: [CommandKey: Handler] = [:]
    private var isStopped = false
    var onEvent: (CommandKey, Event) -> Void = { _, _ in }

    init(_ loop: EndpointLoop) {
        self.loop = loop
    }

    /// Starts the handler of a command.
    /// - Parameters:
    ///   - senderKey: The sender's key, for which the reply is sealed.
    ///   - replyBytes: The limit for the sealed reply: the relay's, and not more than the SDK's own.
    func start(
        _ key: CommandKey,
        _ body: CommandBody,
        _ app: RemoteSystemAppRegistration,
        _ caller: AppServiceCaller,
        _ command: SealedCommand,
        _ senderKey: AgreementPublicKey,
        replyBytes: Int
    ) {
        let cancellation = RequestCancellation()
        handlers[key] = Handler(started: loop.now, cancellation: cancellation)
        setTimer(key, CommandPeriod.handling)
        let bound = NIOLoopBound(self, eventLoop: loop.eventLoop)
        handlers[key]?.task = loop.spawn(self) { handlers in
            let extend: @Sendable () async -> Void = {
                bound.eventLoop.execute { bound.value.askedForTime(key) }
            }
            let name = command.header.kind == .launch ? "handle launch" : "handle message"
            let (outcome, answer) = await Trace.span(name, .consumer, of: command.header.trace) {
                await CommandDispatcher.run(body, app, caller, cancellation, replyBytes: replyBytes, extend)
            }
            handlers.handled(key, outcome, answer, command, senderKey)
        }
    }

    private func askedForTime(_ key: CommandKey) { if handlers[key] != nil { onEvent(key, .askedForTime) } }

    private func handled(
        _ key: CommandKey,
        _ outcome: CommandOutcome,
        _ answer: ValueSet?,
        _ command: SealedCommand,
        _ senderKey: AgreementPublicKey
    ) {
        // If the platform stops a handler, its result is ignored. After a restart the outcome is indeterminate.
        guard !isStopped, handlers[key] != nil else { return }
        handlers.removeValue(forKey: key)?.timer?.cancel()
        guard let answer else { return onEvent(key, .ended(outcome, reply: nil)) }
        guard let reply = try? SealedReply(answer, to: command, sender: senderKey) else {
            return onEvent(key, .ended(.failed(reason: "the answer cannot be sealed for its sender"), reply: nil))
        }
        onEvent(key, .ended(outcome, reply: reply.encoded))
    }

    func extendTime(_ key: CommandKey) {
        guard let handler = handlers[key] else { return }
        setTimer(key, handler.started + CommandPeriod.extendedHandling - loop.now)
    }

    private func setTimer(_ key: CommandKey, _ delay: Int64) {
        handlers[key]?.timer?.cancel()
        handlers[key]?.timer = loop.after(delay) { [weak self] in self?.onEvent(key, .timedOut) }
    }

    /// Tells the handler that the sender has cancelled the command.
    func cancel(_ key: CommandKey) { handlers[key]?.cancellation.cancel() }

    /// Cancels a handler's task. Its result is ignored.
    func remove(_ key: CommandKey) {
        guard let handler = handlers.removeValue(forKey: key) else { return }
        handler.timer?.cancel()
        handler.task?.cancel()
    }

    /// Stops all timers, because the platform shuts down. Later results are ignored.
    func stop() {
        isStopped = true
        for handler in handlers.values { handler.timer?.cancel() }
    }
}

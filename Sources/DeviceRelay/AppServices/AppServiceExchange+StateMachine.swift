// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A request of the peer from its arrival to its answer.
///
/// open → answering → answered; answering → open, if the answer cannot be sent and another may be given. Until it is answered, it can be
/// cancelled; the app may still answer, and learns that the caller does not wait.
///
/// The message is apart from that: it waits until a handler takes it, or the request is over.
struct AppServiceExchangeStateMachine<Message: Sendable, CancelHandler: Sendable>: Sendable {
    private enum State {
        case open(CancelHandlers)
        case answering(CancelHandlers)
        case answered
        case cancelled(isAnswered: Bool)
    }

    /// The first of them, which is mostly the only one, needs no array.
    struct CancelHandlers: Sendable {
        fileprivate var first: CancelHandler?
        fileprivate var others: [CancelHandler] = []

        fileprivate mutating func append(_ handler: CancelHandler) {
            if first == nil { first = handler } else { others.append(handler) }
        }

        func forEach(_ body: (CancelHandler) -> Void) {
            if let first { body(first) }
            others.forEach(body)
        }
    }

    private var state = State.open(CancelHandlers())
    /// The message, until it is taken.
    private(set) var message: Message?
    /// Memory that is set aside for the decoded message.
    private(set) var reservedBytes = 0

    init(message: Message) { self.message = message }

    var isCancelled: Bool { if case .cancelled = state { true } else { false } }

    // MARK: The message

    /// Memory is there for the message.
    mutating func reserve(_ bytes: Int) { reservedBytes = bytes }

    /// Takes the message out. The handler is as in `addCancelHandler`.
    mutating func takeMessage(onCancel handler: CancelHandler?) -> Message? {
        guard let message = message.take() else { return nil }
        if let handler { _ = addCancelHandler(handler) }
        return message
    }

    /// The request is over on its way: the message goes if it was not taken.
    mutating func dropMessage() -> Message? { message.take() }

    // MARK: The caller

    /// - Returns: Whether the handler is to run at once, since the request is cancelled.
    mutating func addCancelHandler(_ handler: CancelHandler) -> Bool {
        switch state {
        case .open(var handlers):
            handlers.append(handler)
            state = .open(handlers)
        case .answering(var handlers):
            handlers.append(handler)
            state = .answering(handlers)
        case .answered: break
        case .cancelled: return true
        }
        return false
    }

    /// The caller no longer waits.
    /// - Returns: The handlers that are to run.
    mutating func cancel() -> CancelHandlers {
        switch state {
        case .open(let handlers):
            state = .cancelled(isAnswered: false)
            return handlers
        case .answering(let handlers):
            state = .cancelled(isAnswered: true)
            return handlers
        case .answered, .cancelled: return CancelHandlers()
        }
    }

    // MARK: The answer

    /// The app gives an answer by hand; `answerFailed` or `answerLeft` follows.
    /// - Returns: False if there was one.
    mutating func beginAnswer() -> Bool {
        switch state {
        case .open(let handlers):
            state = .answering(handlers)
            return true
        case .cancelled(isAnswered: false):
            state = .cancelled(isAnswered: true)
            return true
        case .answering, .answered, .cancelled: return false
        }
    }

    /// The answer that was begun cannot be sent; another may be given.
    mutating func answerFailed() {
        switch state {
        case .answering(let handlers): state = .open(handlers)
        case .cancelled: state = .cancelled(isAnswered: false)
        case .open, .answered: break
        }
    }

    /// The answer that was begun has left.
    mutating func answerLeft() {
        if case .answering = state { state = .answered }
    }

    enum Completion: Hashable {
        /// Say it.
        case send
        /// There was an answer, or one is being given.
        case nothing
        /// The caller does not wait for it.
        case cancelled
    }

    /// The app says that there is no answer. Without effect after another one.
    mutating func fail() -> Completion {
        if case .answering = state { return .nothing }
        return complete()
    }

    /// The handler is done. No cancel handler runs any more, unless the request was cancelled before.
    mutating func complete() -> Completion {
        switch state {
        case .open:
            state = .answered
            return .send
        case .answering:
            state = .answered
            return .nothing
        case .answered: return .nothing
        case .cancelled: return .cancelled
        }
    }
}

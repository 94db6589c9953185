// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A received request, from its arrival to its response.
///
/// open → answering → answered. It goes back from answering to open if the response cannot be sent; the app may then give another one.
/// Until the request is answered, it can be cancelled. The app may still answer a cancelled request, and learns that the caller no longer
/// waits.
///
/// The message has its own state: it is kept until a handler takes it, or the request ends.
struct AppServiceExchangeStateMachine<Message: Sendable, CancelHandler: Sendable>: Sendable {
    private enum State {
        case open(CancelHandlers)
        case answering(CancelHandlers)
        case answered
        case cancelled(isAnswered: Bool)
    }

    /// The first handler is stored outside the array, because there is rarely more than one. This avoids an allocation.
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
    /// The message; `nil` after it was taken or dropped.
    private(set) var message: Message?
    /// The memory that is reserved for the decoded message, in bytes.
    private(set) var reservedBytes = 0

    init(message: Message) { self.message = message }

    var isCancelled: Bool { if case .cancelled = state { true } else { false } }

    // MARK: The message

    /// Records that memory is reserved for the message.
    mutating func reserve(_ bytes: Int) { reservedBytes = bytes }

    /// Takes the message out, and adds the cancel handler if there was a message.
    mutating func takeMessage(onCancel handler: CancelHandler?) -> Message? {
        guard let message = message.take() else { return nil }
        if let handler { _ = addCancelHandler(handler) }
        return message
    }

    /// Drops the message if no handler has taken it, because the request has ended.
    mutating func dropMessage() -> Message? { message.take() }

    // MARK: The caller

    /// - Returns: Whether the caller must run the handler at once, because the request is already cancelled.
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

    /// Cancels the request, because its caller no longer waits.
    /// - Returns: The handlers to run.
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

    /// Begins a response that the app gives through `respond`. A call of `answerFailed` or `answerLeft` follows.
    /// - Returns: False if the request already has a response.
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

    /// Records that the response cannot be sent. The app may give another one.
    mutating func answerFailed() {
        switch state {
        case .answering(let handlers): state = .open(handlers)
        case .cancelled: state = .cancelled(isAnswered: false)
        case .open, .answered: break
        }
    }

    /// Records that the response was sent.
    mutating func answerLeft() {
        if case .answering = state { state = .answered }
    }

    enum Completion: Hashable {
        /// Send the response.
        case send
        /// A response was given before, or is being given.
        case nothing
        /// The caller no longer waits.
        case cancelled
    }

    /// Answers with an error. It has no effect after another response.
    mutating func fail() -> Completion {
        if case .answering = state { return .nothing }
        return complete()
    }

    /// Records that the handler has ended. From now on no cancel handler runs, unless the request was cancelled before.
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

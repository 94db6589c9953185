// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import Synchronization

/// A received request. It lives as long as its handler, and holds the memory of its decoded message.
final class SessionExchange: AppServiceExchange {
    private typealias StateMachine = AppServiceExchangeStateMachine<ByteBuffer, @Sendable () -> Void>

    let request: SessionRequestID
    let deadline: ContinuousClock.Instant?
    /// The message's credit. It is returned when the message is decoded or dropped.
    private let receipt: MessageCredit?
    private let link: SessionLink
    private let state: Mutex<StateMachine>

    init(
        _ request: SessionRequestID,
        message: ByteBuffer,
        deadline: ContinuousClock.Instant?,
        receipt: MessageCredit?,
        link: SessionLink
    ) {
        self.request = request
        self.deadline = deadline
        self.receipt = receipt
        self.link = link
        self.state = Mutex(StateMachine(message: message))
    }

    deinit {
        let reserved = state.withLock(\.reservedBytes)
        if reserved > 0 { link.memory.decoded.release(reserved) }
    }

    // MARK: The caller

    var isCancelled: Bool { state.withLock(\.isCancelled) }

    func onCancel(_ body: @escaping @Sendable () -> Void) {
        if state.withLock({ $0.addCancelHandler(body) }) { body() }
    }

    /// Cancels the request, because the caller no longer waits.
    /// - Returns: The receipt of the message, if no handler has taken it.
    func cancel() -> MessageCredit? {
        let (handlers, message) = state.withLock { state in (state.cancel(), state.dropMessage()) }
        handlers.forEach { $0() }
        return message == nil ? nil : receipt
    }

    /// Drops the message, because the request ended in another way.
    /// - Returns: The receipt of the message, if no handler has taken it.
    func dropMessage() -> MessageCredit? { state.withLock { $0.dropMessage() } == nil ? nil : receipt }

    // MARK: The message

    func takeMessage(onCancel body: (@Sendable () -> Void)?) -> TakenMessage {
        // A tiny message, or one with reserved memory, is taken at once. For any other, the needed memory is computed without the lock.
        let (taken, waiting): (ByteBuffer?, ByteBuffer?) = state.withLock { state in
            guard let message = state.message, message.readableBytes > SessionMemory.tinyBytes, state.reservedBytes == 0 else {
                return (state.takeMessage(onCancel: body), nil)
            }
            return (nil, message)
        }
        if let taken { return decode(taken) }
        guard let waiting else { return .gone }
        let needed = Self.neededMemory(for: waiting)
        guard needed == 0 || link.memory.decoded.takeAtOnce(needed) else { return .needsMemory }
        let message = state.withLock { state in
            state.reserve(needed)
            return state.takeMessage(onCancel: body)
        }
        return message.map(decode) ?? .gone
    }

    func reserveMemory() async -> Bool {
        guard let message = state.withLock(\.message) else { return false }
        let needed = Self.neededMemory(for: message)
        if let error = AppServiceError(decodedBytes: needed, most: link.memory.decoded.part) {
            fail(error, isDecision: false)
            return false
        }
        guard await link.memory.decoded.take(needed) else { return false }
        state.withLock { $0.reserve(needed) }
        return true
    }

    private static func neededMemory(for message: ByteBuffer) -> Int {
        max(0, ValueSet.decodedMemory(of: message) - SessionMemory.freeDecodedBytes)
    }

    private func decode(_ message: ByteBuffer) -> TakenMessage {
        // The credit is returned even if decoding fails, so that the peer can send the next message.
        defer { if let receipt { link.enqueue(.consumed(receipt)) } }
        do throws(ValueSetError) {
            return .message(try ValueSet(decoding: message))
        } catch {
            fail(AppServiceError(.invalidMessage, message: "the message does not decode: \(error)"), isDecision: false)
            return .gone
        }
    }

    // MARK: The answer

    func respond(_ message: ValueSet) async throws(AppServiceError) {
        guard state.withLock({ $0.beginAnswer() }) else { throw .alreadyAnswered }
        do throws(AppServiceError) {
            try await send(message)
        } catch {
            if error.code == .messageTooLarge || error.code == .invalidMessage { state.withLock { $0.answerFailed() } }
            throw error
        }
        state.withLock { $0.answerLeft() }
    }

    func fail(_ error: AppServiceError, isDecision: Bool) {
        if state.withLock({ $0.fail() }) == .send { sendFailure(error) }
    }

    func complete(_ answer: HandlerAnswer) -> CompletedExchange {
        switch state.withLock({ $0.complete() }) {
        case .nothing: return .answered
        case .cancelled: return .cancelled
        case .send: break
        }
        switch answer {
        case .failure(let error, isDecision: _): sendFailure(error)
        case .message(let message):
            do throws(AppServiceError) {
                let size = try message.sizeForSession()
                guard let place = link.placeAtOnce(ofBytes: size) else { return .needsMemory }
                link.enqueue(.respond(request, message.encodedForSession(measuredAs: size), place, nil))
            } catch {
                sendFailure(error)
            }
        }
        return .answered
    }

    func sendCompleted(_ message: ValueSet) async {
        do throws(AppServiceError) {
            try await send(message)
        } catch {
            sendFailure(error)
        }
    }

    private func send(_ message: ValueSet) async throws(AppServiceError) {
        let size = try message.sizeForSession()
        let place = try await link.place(ofBytes: size)
        let bytes = message.encodedForSession(measuredAs: size)
        let result = await withCheckedContinuation { link.enqueue(.respond(request, bytes, place, $0)) }
        try result.get()
    }

    private func sendFailure(_ error: AppServiceError) {
        link.enqueue { [request] handler in handler.fail(request, error.failure) }
    }
}

extension ValueSet {
    /// Encodes the message for the wire.
    func encodedForSession() throws(AppServiceError) -> ByteBuffer { encodedForSession(measuredAs: try sizeForSession()) }

    fileprivate func encodedForSession(measuredAs size: Int) -> ByteBuffer {
        var buffer = ByteBuffer()
        encode(into: &buffer, measuredAs: size)
        return buffer
    }

    fileprivate func sizeForSession() throws(AppServiceError) -> Int {
        do throws(ValueSetError) {
            return try encodedSize()
        } catch {
            throw AppServiceError(.invalidMessage, message: "the message cannot be encoded: \(error)", cause: error)
        }
    }
}

extension AppServiceError {
    /// The error for a message whose decoded size exceeds the whole budget; `nil` if it fits.
    init?(decodedBytes: Int, most: Int) {
        guard decodedBytes > most else { return nil }
        let excess = LimitExceeded(limit: .assemblyBytesPerSession, allowed: most, requested: decodedBytes)
        self.init(.messageTooLarge, message: "decoded, the message takes too much memory: \(excess); send it in parts", cause: excess)
    }

    static var alreadyAnswered: Self { Self(.notSupported, message: "the request has its answer; answer each request once") }
}

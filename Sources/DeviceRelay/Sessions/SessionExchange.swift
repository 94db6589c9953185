// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import Synchronization

/// A request of the peer. It lives as long as its handler, and holds the memory that its decoded message takes.
final class SessionExchange: AppServiceExchange {
    private struct State {
        var message: ByteBuffer?
        /// Set aside for the decoded message.
        var room = 0
    }

    let request: SessionRequestID
    let deadline: ContinuousClock.Instant?
    let cancellation = RequestCancellation()
    /// To be said when the message is taken, if it has not been.
    let receipt: SessionReceipt?
    private let link: SessionLink
    private let state: Mutex<State>

    init(
        _ request: SessionRequestID,
        message: ByteBuffer,
        deadline: ContinuousClock.Instant?,
        receipt: SessionReceipt?,
        link: SessionLink
    ) {
        self.request = request
        self.deadline = deadline
        self.receipt = receipt
        self.link = link
        self.state = Mutex(State(message: message))
    }

    deinit {
        let room = state.withLock(\.room)
        if room > 0 { link.memory.decoded.release(room) }
    }

    // MARK: The message

    /// The message, once.
    func takeBytes() -> ByteBuffer? {
        state.withLock { state in
            defer { state.message = nil }
            return state.message
        }
    }

    /// What has to be set aside; nothing for a small message, or one that is gone.
    private var neededRoom: Int {
        guard let message = state.withLock(\.message), message.readableBytes > SessionMemory.tinyBytes else { return 0 }
        return max(0, ValueSet.decodedMemory(of: message) - SessionMemory.freeDecodedBytes)
    }

    func makeRoomAtOnce() -> Bool {
        let room = neededRoom
        guard room > 0 else { return true }
        guard link.memory.decoded.takeAtOnce(room) else { return false }
        state.withLock { $0.room = room }
        return true
    }

    func makeRoom() async throws(AppServiceError) {
        let room = neededRoom
        guard room > 0 else { return }
        if let error = AppServiceError(decodedBytes: room, most: link.memory.decoded.part) { throw error }
        guard await link.memory.decoded.take(room) else { throw AppServiceError(.cancelled) }
        state.withLock { $0.room = room }
    }

    func take() throws(ValueSetError) -> ValueSet? {
        guard let bytes = takeBytes() else { return nil }
        // Whatever becomes of it, the next message may come then.
        defer { if let receipt { link.enqueue(.consumed(receipt)) } }
        return try ValueSet(decoding: bytes)
    }

    // MARK: The answer

    func respond(_ message: ValueSet) async throws(AppServiceError) {
        let size = try message.sizeForSession()
        let place = try await link.place(ofBytes: size)
        let bytes = message.encodedForSession(measuredAs: size)
        let result = await withSingleContinuation { link.enqueue(.respond(request, bytes, place, $0)) }
        try result.get()
    }

    func respondAtOnce(_ message: ValueSet) -> Bool {
        do throws(AppServiceError) {
            let size = try message.sizeForSession()
            guard let place = link.placeAtOnce(ofBytes: size) else { return false }
            link.enqueue(.respond(request, message.encodedForSession(measuredAs: size), place, nil))
        } catch {
            fail(error, isDecision: true)
        }
        return true
    }

    func fail(_ error: AppServiceError, isDecision: Bool) {
        link.enqueue { [request] handler in handler.fail(request, error.failure) }
    }
}

extension ValueSet {
    /// The message as it travels.
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
    /// That a message takes more memory than there may ever be for it; `nil` if it does not.
    init?(decodedBytes: Int, most: Int) {
        guard decodedBytes > most else { return nil }
        let excess = LimitExceeded(limit: .assemblyBytesPerSession, allowed: most, requested: decodedBytes)
        self.init(.messageTooLarge, message: "decoded, the message takes too much memory: \(excess); send it in parts", cause: excess)
    }
}

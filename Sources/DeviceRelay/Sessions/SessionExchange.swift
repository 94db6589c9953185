// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import Synchronization

/// A request of the peer.
final class SessionExchange: AppServiceExchange {
    let request: SessionRequestID
    let deadline: ContinuousClock.Instant?
    let cancellation = RequestCancellation()
    /// To be said when the message is taken, if it has not been.
    let receipt: SessionReceipt?
    private let link: SessionLink
    private let message: Mutex<ByteBuffer?>

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
        self.message = Mutex(message)
    }

    /// The message, once.
    func takeBytes() -> ByteBuffer? {
        message.withLock { message in
            defer { message = nil }
            return message
        }
    }

    func take() throws(ValueSetError) -> ValueSet? {
        guard let bytes = takeBytes() else { return nil }
        // Whatever becomes of it, the next message may come then.
        defer { if let receipt { link.enqueue(.consumed(receipt)) } }
        return try ValueSet(decoding: bytes)
    }

    func respond(_ message: ValueSet) async throws(AppServiceError) {
        let bytes = try message.encodedForSession()
        let result = await withSingleContinuation { link.enqueue(.respond(request, bytes, $0)) }
        try result.get()
    }

    func respondAtOnce(_ message: ValueSet) -> Bool {
        guard link.takesAnswers else { return false }
        do throws(AppServiceError) {
            link.enqueueAnswer(try message.encodedForSession(), to: request)
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
    func encodedForSession() throws(AppServiceError) -> ByteBuffer {
        do throws(ValueSetError) {
            var buffer = ByteBuffer()
            try encode(into: &buffer)
            return buffer
        } catch {
            throw AppServiceError(.invalidMessage, message: "the message cannot be encoded: \(error)", cause: error)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import Synchronization

/// Carries an app service connection over a session.
final class SessionCarrier: AppServiceCarrier {
    private enum State {
        /// The peer asked for it, and its app has not been heard.
        case offered
        case open
        case finished
    }

    private let id: SessionConnectionID
    private let link: SessionLink
    private let inbox: AppServiceInbox
    private let state: Mutex<State>

    init(_ id: SessionConnectionID, link: SessionLink, inbox: AppServiceInbox, isOffered: Bool) {
        self.id = id
        self.link = link
        self.inbox = inbox
        self.state = Mutex(isOffered ? .offered : .open)
    }

    func accept() {
        let isFirst = state.withLock { state in
            guard case .offered = state else { return false }
            state = .open
            return true
        }
        if isFirst { link.enqueue { [id] handler in handler.accept(id) } }
    }

    func send(_ message: ValueSet, timeout: Duration) async throws(AppServiceError) -> ValueSet {
        if let closure = inbox.closure.value { throw closure.error }
        let bytes = try message.encodedForSession()
        let response: SessionAsk.Response
        do throws(AppServiceError) {
            response = try await link.ask { .request(bytes, on: id, token: $0, timeout: timeout, $1) }
        } catch {
            // If it was closed just before, that says more.
            if error.code == .appServiceConnectionClosed, let closure = inbox.closure.value { throw closure.error }
            throw error
        }
        defer {
            if let receipt = response.receipt { link.enqueue(.consumed(receipt)) }
        }
        // A large one that needs more memory than a session may have for messages is a mistake, or an attack.
        if response.receipt != nil,
            let error = AppServiceError(decodedBytes: ValueSet.decodedMemory(of: response.message), most: link.memory.decoded.part)
        {
            throw error
        }
        do throws(ValueSetError) {
            return try ValueSet(decoding: response.message)
        } catch {
            throw AppServiceError(.invalidMessage, message: "the answer does not decode: \(error)", cause: error)
        }
    }

    func finish(_ error: (any Error)?) {
        let before = state.withLock { state in
            defer { state = .finished }
            return state
        }
        switch (before, error) {
        case (.finished, _): return
        case (.offered, let error?):
            let reason = error as? AppServiceError ?? AppServiceError(.appUnavailable, message: "the service failed")
            link.enqueue { [id] handler in handler.refuse(id, reason.refusal) }
        case (.offered, nil):
            // The service was there, and had nothing to say.
            link.enqueue { [id] handler in
                handler.accept(id)
                handler.close(id, SessionClosure(.completed))
            }
        case (.open, nil):
            link.enqueue { [id] handler in handler.close(id, SessionClosure(.completed)) }
        case (.open, let error?):
            link.enqueue { [id] handler in handler.close(id, Self.closure(error)) }
        }
        inbox.close(AppServiceClosure(.completed))
    }

    private static func closure(_ error: any Error) -> SessionClosure {
        guard let error = error as? AppServiceError else { return SessionClosure(.cancelled, "the service failed") }
        return SessionClosure(error.code == .resourceLimitsExceeded ? .resourceLimitsExceeded : .cancelled, error.message)
    }
}

extension SessionLink {
    /// Has something done on the loop, and waits for what becomes of it, unless the task is cancelled.
    @inline(__always)
    func ask<Value: Sendable>(
        _ command: (UInt64, SessionAsk.Continuation<Value>) -> Command
    ) async throws(AppServiceError) -> Value {
        let token = makeToken()
        let result: Result<Value, AppServiceError> = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isStarted = enqueueUnlessCancelled(command(token, continuation))
                if !isStarted { continuation.resume(returning: .failure(AppServiceError(.cancelled))) }
            }
        } onCancel: {
            enqueue { handler in handler.giveUp(token, .cancelled) }
        }
        return try result.get()
    }
}

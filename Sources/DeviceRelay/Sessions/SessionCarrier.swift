// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import Synchronization

/// Carries an app service connection over a session.
final class SessionCarrier: AppServiceCarrier {
    private enum State {
        /// The peer opened the connection, and the local app has not accepted it yet.
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

    var isDirect: Bool { link.isDirect }

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
            // The closure gives the more precise reason, if the connection was closed just before.
            if error.code == .appServiceConnectionClosed, let closure = inbox.closure.value { throw closure.error }
            throw error
        }
        defer {
            if let receipt = response.receipt { link.enqueue(.consumed(receipt)) }
        }
        // A large response that needs more memory than a peer may have for decoded messages is an error or an attack.
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
            link.enqueue { [id] handler in handler.refuse(id, reason.rejection) }
        case (.offered, nil):
            // The service returned without using the connection. This counts as accepted and completed.
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
    /// Runs a command on the loop and waits for its result, or until the task is cancelled.
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

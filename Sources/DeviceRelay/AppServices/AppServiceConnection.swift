// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol

/// A conversation with an app service, or with the app that called one: both sides send messages and answer those of the other.
///
/// All of it may be used from any task, and any number of messages may be on their way. Requests are handed out in the order in which they
/// were sent. A connection that is no longer referenced closes.
public final class AppServiceConnection: Sendable {
    /// The service that was asked for.
    public let info: AppServiceInfo

    private let carrier: any AppServiceCarrier
    private let inbox: AppServiceInbox
    /// Shared with other connections to the service.
    private let limiter: HandlerLimiter

    init(info: AppServiceInfo, carrier: any AppServiceCarrier, inbox: AppServiceInbox, limiter: HandlerLimiter = HandlerLimiter()) {
        self.info = info
        self.carrier = carrier
        self.inbox = inbox
        self.limiter = limiter
    }

    deinit { carrier.finish(nil) }

    // MARK: Asking

    /// Sends a message and waits for the answer. Cancelling the task, or the end of the time, takes the request back on the other side too.
    /// - Parameters:
    ///   - message: At most 16 MiB encoded, unless the limit `messageBytes` of a side says otherwise.
    ///   - timeout: For everything up to the answer.
    /// - Throws: What the service answered (`failure`, or a code of its own); `messageTooLarge`, `resourceLimitsExceeded` (over 1,024 requests
    ///   at once, or 4,096 over all connections to the device), `invalidMessage`, `timedOut`, `cancelled`, `appServiceConnectionClosed`, `remoteSystemUnavailable`; `notSupported` on
    ///   a connection that was made for a stateless message.
    public func send(_ message: ValueSet, timeout: Duration = .seconds(30)) async throws(AppServiceError) -> ValueSet {
        carrier.accept()
        return try await carrier.send(message, timeout: timeout)
    }

    /// Sends a call as the message that its type describes, and reads the answer.
    /// - Throws: As `send`; `invalidMessage` also for an answer that is no `Response`, and for a call that cannot be encoded.
    public func call<Call: AppServiceCall>(
        _ call: Call,
        timeout: Duration = .seconds(30)
    ) async throws(AppServiceError) -> Call.Response {
        var message: ValueSet
        do {
            message = try ValueSetEncoder().encode(call)
        } catch {
            throw AppServiceError(.invalidMessage, message: "the call \(Call.type) cannot be encoded", cause: error)
        }
        message["Type"] = .string(Call.type)
        let answer = try await send(message, timeout: timeout)
        do {
            return try ValueSetDecoder().decode(Call.Response.self, from: answer)
        } catch {
            throw AppServiceError(.invalidMessage, message: "the answer to \(Call.type) is not what the call expects", cause: error)
        }
    }

    // MARK: Answering

    /// Answers requests with what the handler returns, until the connection is closed. An `AppServiceError` that the handler throws is the
    /// answer with its code and message; any other error is `failure`. The handler's task is cancelled when the caller no longer waits.
    /// - Parameters:
    ///   - concurrently: How many requests are handled at once; others wait their turn. All connections of the caller's device to the service
    ///     together have 32, or this if it is more: what so many handlers return may be in memory at once.
    ///   - handler: Makes the answer to a request.
    /// - Throws: `cancelled` when the task is cancelled.
    public func respond(
        concurrently: Int = 16,
        _ handler: @escaping @Sendable (AppServiceRequest) async throws -> ValueSet
    ) async throws(AppServiceError) {
        if !Task.isCancelled { carrier.accept() }
        await AppServiceResponder(inbox, limiter, concurrently: concurrently, handler).run()
        if Task.isCancelled { throw AppServiceError(.cancelled) }
    }

    /// The other side's messages, to be answered one by one, until the connection is closed. Each is given out once: two iterations share
    /// them.
    public var requests: AsyncValues<AppServiceRequest> { AsyncValues { { await self.nextRequest() } } }

    func nextRequest() async -> AppServiceRequest? {
        carrier.accept()
        while let exchange = await inbox.next() {
            var taken = exchange.takeMessage(onCancel: nil)
            if case .needsMemory = taken {
                if await exchange.reserveMemory() {
                    taken = exchange.takeMessage(onCancel: nil)
                } else if Task.isCancelled {
                    inbox.putBack(exchange)
                }
            }
            if case .message(let message) = taken { return AppServiceRequest(message: message, exchange: exchange) }
        }
        return nil
    }

    // MARK: The end

    /// Closes the connection. Requests that have no answer yet end on both sides; answers that were given still leave.
    public func close() { carrier.finish(nil) }

    /// How the connection was closed, once it is, by whichever side. Throws `cancelled` when the task that waits is cancelled.
    public var closed: AppServiceClosure {
        get async throws(AppServiceError) {
            carrier.accept()
            guard let closure = await inbox.closure.wait() else { throw AppServiceError(.cancelled) }
            return closure
        }
    }

    /// The service's handler has returned or thrown.
    func finish(_ error: (any Error)?) { carrier.finish(error) }
}

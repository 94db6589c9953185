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
    let limiter: HandlerLimiter

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
        await AppServiceResponder(self, concurrently: concurrently, handler).run()
        if Task.isCancelled { throw AppServiceError(.cancelled) }
    }

    /// The other side's messages, to be answered one by one. For one consumer.
    public var requests: AppServiceRequests { AppServiceRequests(connection: self) }

    func nextRequest() async -> AppServiceRequest? {
        while let exchange = await nextExchange() {
            var hasRoom = exchange.makeRoomAtOnce()
            if !hasRoom { hasRoom = await makeRoom(exchange) }
            if hasRoom, let request = request(exchange) { return request }
        }
        return nil
    }

    /// A request as it has come; `nil` when the connection is closed, or the task is cancelled.
    func nextExchange() async -> (any AppServiceExchange)? {
        carrier.accept()
        return await inbox.next()
    }

    /// The same, without waiting for one.
    func waitingExchange() -> (any AppServiceExchange)? { inbox.waiting() }

    /// Waits until there is memory for the message. A message that can never fit is refused; one whose waiter was cancelled stays with the
    /// connection.
    /// - Returns: Whether there is.
    func makeRoom(_ exchange: any AppServiceExchange) async -> Bool {
        do throws(AppServiceError) {
            try await exchange.makeRoom()
            return true
        } catch {
            if error.code == .cancelled { inbox.putBack(exchange) } else { exchange.fail(error, isDecision: false) }
            return false
        }
    }

    /// What was taken from the connection, and is not handled, stays with it.
    func putBack(_ exchange: any AppServiceExchange) { inbox.putBack(exchange) }

    /// Takes the message, for which there is room; `nil` if it is not wanted any more, or does not decode.
    func request(_ exchange: any AppServiceExchange) -> AppServiceRequest? {
        do throws(ValueSetError) {
            guard let message = try exchange.take() else { return nil }
            return AppServiceRequest(message: message, exchange: exchange)
        } catch {
            exchange.fail(AppServiceError(.invalidMessage, message: "the message does not decode: \(error)"), isDecision: false)
            return nil
        }
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

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol
import RelayTracing

/// A connection to an app service, or from an app that called one. Both sides can send requests and answer them.
///
/// All members may be used from any task, and any number of requests may be pending. Requests are delivered in the order in which they were
/// sent. The connection closes when it is no longer referenced.
public final class AppServiceConnection: Sendable {
    /// The service that the connection was opened for.
    public let info: AppServiceInfo

    private let carrier: any AppServiceCarrier
    private let inbox: AppServiceInbox
    /// Shared with the session's other connections to the service.
    private let limiter: HandlerLimiter
    /// The span that opened the connection, if its side traces. All requests of the connection are part of its trace.
    private let trace: TraceContext?

    init(
        info: AppServiceInfo,
        carrier: any AppServiceCarrier,
        inbox: AppServiceInbox,
        limiter: HandlerLimiter = HandlerLimiter(),
        trace: TraceContext? = nil
    ) {
        self.info = info
        self.carrier = carrier
        self.inbox = inbox
        self.limiter = limiter
        self.trace = trace
    }

    deinit { carrier.finish(nil) }

    /// Whether the other device is reached without the relay now.
    var isDirect: Bool { carrier.isDirect }

    // MARK: Sending requests

    /// Sends a request and waits for the response. If the task is cancelled or the timeout passes, the request is also cancelled on the
    /// other side.
    /// - Parameters:
    ///   - message: At most 16 MiB encoded, unless the limit `messageBytes` of a side differs.
    ///   - timeout: The time until the response has arrived; default 30 s.
    /// - Throws: `failure` or another code if the service answered with an error; `messageTooLarge`, `resourceLimitsExceeded` (over 1,024
    ///   requests at once, or 4,096 over all connections to the device), `invalidMessage`, `timedOut`, `cancelled`,
    ///   `appServiceConnectionClosed`, `remoteSystemUnavailable`; `notSupported` on a connection that carries a stateless message.
    public func send(_ message: ValueSet, timeout: Duration = .seconds(30)) async throws(AppServiceError) -> ValueSet {
        carrier.accept()
        guard let trace else { return try await carrier.send(message, timeout: timeout) }
        return try await Trace.span("call app service", .client, of: trace) { () async throws(AppServiceError) in
            try await carrier.send(message, timeout: timeout)
        }
    }

    /// Sends a call as a `ValueSet`, and decodes the response.
    /// - Throws: As `send`. Also `invalidMessage` if the call cannot be encoded, or the response does not decode as `Response`.
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

    // MARK: Answering requests

    /// Answers requests with the handler's results, until the connection is closed. If the handler throws an `AppServiceError`, its code
    /// and message are the response; any other error is sent as `failure`. The handler's task is cancelled when the caller no longer waits.
    /// - Parameters:
    ///   - concurrently: The maximum number of requests that are handled at once; further requests wait; default 16. All connections of the caller's
    ///     device to the service share a maximum of 32, or of this number if it is larger, because the responses of so many handlers may be
    ///     in memory at once.
    ///   - handler: Returns the response to a request.
    /// - Throws: `cancelled` when the task is cancelled.
    public func respond(
        concurrently: Int = 16,
        _ handler: @escaping @Sendable (AppServiceRequest) async throws -> ValueSet
    ) async throws(AppServiceError) {
        if !Task.isCancelled { carrier.accept() }
        await AppServiceResponder(inbox, limiter, concurrently: concurrently, trace: trace, handler).run()
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

    /// Closes the connection. Requests without a response end on both sides. Responses that were already given are still sent.
    public func close() { carrier.finish(nil) }

    /// Waits until either side closes the connection, and returns how. Throws `cancelled` when the waiting task is cancelled.
    public var closed: AppServiceClosure {
        get async throws(AppServiceError) {
            carrier.accept()
            guard let closure = await inbox.closure.wait() else { throw AppServiceError(.cancelled) }
            return closure
        }
    }

    /// Ends the connection after the service's handler returned or threw.
    func finish(_ error: (any Error)?) { carrier.finish(error) }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The interface by which the parts of an endpoint send messages to the relay.
protocol ControlSending: AnyObject {
    var isConnected: Bool { get }
    /// The limits that the relay stated on this connection, or the defaults.
    var limits: Limits { get }
    /// Sends a request, as soon as there is room. Without a connection the request is dropped: each part repeats its requests on the next
    /// connection.
    /// - Parameter answer: Called exactly once.
    func request(_ make: @escaping (RequestRef) -> EndpointMessage, answer: @escaping (ControlAnswer) -> Void)
    /// Sends a message that has no answer.
    func say(_ message: EndpointMessage)
    /// Runs a closure later, unless the current connection ends before.
    /// - Parameter delay: In milliseconds.
    func afterOnConnection(_ delay: Int64, _ body: @escaping () -> Void)
    /// Closes the connection. The next connection is opened automatically.
    func close(code: UInt16, reason: String)
}

extension ControlSending {
    /// Sends a request, and repeats it after a pause if the relay answers `tooManyRequests`.
    func requestPatiently(
        _ loop: EndpointLoop,
        _ make: @escaping (RequestRef) -> EndpointMessage,
        answer: @escaping (ControlAnswer) -> Void
    ) {
        request(make) { result in
            guard case .failure(let failure) = result, failure.code == .tooManyRequests else { return answer(result) }
            loop.after(failure.pause) { self.requestPatiently(loop, make, answer: answer) }
        }
    }
}

extension RelayMessage.Failure {
    /// The pause before a retry, in milliseconds: at most a minute, even if the relay asks for more.
    var pause: Int64 { min(max(retryAfter?.count ?? 1_000, 100), 60_000) }
}

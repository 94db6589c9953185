// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// How the parts of an endpoint speak to the relay.
protocol ControlSending: AnyObject {
    var isConnected: Bool { get }
    /// What the relay said on the connection, or the defaults.
    var limits: Limits { get }
    /// Sends a request, as soon as there is room. Without a connection it is dropped: what matters is said again on the next one.
    /// - Parameter answer: Gets exactly one answer.
    func request(_ make: @escaping (RequestRef) -> EndpointMessage, answer: @escaping (ControlAnswer) -> Void)
    /// The same, without an answer.
    func say(_ message: EndpointMessage)
    /// Does something later, if the present connection lasts so long.
    /// - Parameter delay: In milliseconds.
    func afterOnConnection(_ delay: Int64, _ body: @escaping () -> Void)
    /// Closes the connection; the next one begins by itself.
    func close(code: UInt16, reason: String)
}

extension ControlSending {
    /// A request that is made again when the relay says that it was too much at once.
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
    /// When to try again, in milliseconds.
    var pause: Int64 { max(retryAfter?.count ?? 1_000, 100) }
}

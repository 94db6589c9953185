// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

extension ControlChannelClient {
    /// Connects to a relay, reads its relay id from the challenge, and disconnects. Only TLS authenticates the id, so the trust must not be
    /// weaker than the trust for its later use.
    /// - Parameter timeout: The total time limit, in milliseconds.
    package func identify(
        _ address: RelayAddress,
        trust: RelayTrust,
        timeout: Int64 = 15_000
    ) async throws(RequestFailure) -> RelayID {
        let answer = PendingAnswer<RelayID>(on: loop, timeout: timeout)
        let dial = dial(address, trust: trust, timeout: timeout) { event in
            switch event {
            case .dialFailed(let failure): answer.end(.failure(.failed(failure)))
            case .opened(let connection):
                if !answer.whenEnded({ connection.close(code: 1000, reason: "") }) { connection.close(code: 1000, reason: "") }
            case .text(let frame):
                guard case .challenge(let challenge)? = try? RelayMessage.decode(from: frame, limits: Limits(), isWelcome: false) else {
                    return answer.end(.failure(.failed(.protocolError("the relay did not say which one it is"))))
                }
                answer.end(.success(challenge.relay))
            case .closed: answer.end(.failure(.failed(.hungUp)))
            case .bytesReceived, .written: break
            }
        }
        if !answer.whenEnded({ dial.cancel() }) { dial.cancel() }
        return try await answer.value()
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

/// Statuses that a proxy in front of a relay sends, or the relay itself, where this protocol has another answer.
@Suite struct StatusCauseTests {
    @Test(arguments: [502, 503, 504, 521, 522, 530])
    func proxyWithoutItsRelayIsNotAWrongAddress(status: Int) {
        let error = ConnectionError(DialFailure.status(status, retryAfter: nil))
        #expect(error.code == .relayUnreachable)
        #expect(error.message.contains("the relay does not run behind its proxy") && error.message.contains("\(status)"))
    }

    @Test func tooManyRequestsAreALimit() {
        let error = ConnectionError(DialFailure.status(429, retryAfter: 1_000))
        #expect(error.code == .limitExceeded)
        #expect(error.message.contains("limits the requests"))
    }

    /// Every way from a status to a text goes through the same mapping.
    @Test(arguments: 100...599)
    func statusesHaveOneCause(status: Int) {
        let message = StatusCause.message(status)
        let isElsewhere = StatusCause(status) == .notARelay
        #expect(isElsewhere == !((500...599).contains(status) || status == 429))
        #expect(message.contains("not a relay") == isElsewhere && message.contains("check the URL") == isElsewhere)
        for text in [
            ConnectionError(DialFailure.status(status, retryAfter: nil)).message, ConnectionError(status: status).message,
            DialFailure.status(status, retryAfter: nil).advice, IssuerClientError.unreachable(.status(status, retryAfter: nil)).advice,
        ] {
            #expect(text == message)
        }
        #expect(IssuerClientError.unavailable(status: status).advice.contains(message))
        let tunnel = AppServiceError(transport: .unreachable(.status(status, retryAfter: nil)))
        #expect(isElsewhere ? tunnel.code == .remoteSystemUnavailable : tunnel.message == message)
    }
}

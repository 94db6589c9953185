// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import RelayProtocol
import Synchronization

@testable import RelayPush

/// A time that a test sets.
final class TestTime: Sendable {
    private let value: Mutex<Int64>

    init(_ start: Int64 = 1_764_000_000_000) { value = Mutex(start) }

    var now: Milliseconds { Milliseconds(clamping: value.withLock { $0 }) }

    func advance(_ milliseconds: Int64) { value.withLock { $0 += milliseconds } }
}

extension EndpointID {
    /// One of many for tests.
    static func test(_ number: Int) -> EndpointID { EndpointID(digest: Digest256(hashing: Array("endpoint \(number)".utf8))) }
}

extension Wake {
    static func test(_ number: Int = 1, _ urgency: WakePayload.Urgency = .urgent, expiry: Milliseconds) -> Wake {
        let relay = RelayID(digest: Digest256(hashing: Array("relay".utf8)))
        return Wake(WakePayload(relay: relay, endpoint: .test(number), urgency: urgency), expiry: expiry)
    }
}

extension WakeOrder {
    /// An order of the only account.
    init(_ wake: Wake, registration: PushRegistration, credential: PushCredentialID) {
        self.init(wake, account: WakeAccount("account"), registration: registration, registered: 1, credential: credential)
    }
}

extension PushRegistration {
    static func test(fcm token: String) -> PushRegistration { .fcm(token: Secret(token)) }

    static func test(apns token: String) -> PushRegistration { .apns(token: Secret(token), environment: .production) }

    static func test(wns uri: String) -> PushRegistration { .wns(channelURI: Secret(uri)) }
}

/// Waits until a condition holds. The suite's time limit bounds it.
func eventually(_ condition: @Sendable () -> Bool) async throws {
    while !condition() { try await Task.sleep(for: .milliseconds(2)) }
}

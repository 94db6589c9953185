// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

@testable import RelayPush

/// A push channel whose pushes end when the test says so.
final class ScriptedChannel: PushChannel {
    /// A push on its way. The test ends each one.
    struct Push: Sendable {
        let registration: PushRegistration
        fileprivate let continuation: CheckedContinuation<PushOutcome, Never>

        func end(_ outcome: PushOutcome) { continuation.resume(returning: outcome) }
    }

    let service = PushService.fcm
    let pushes: AsyncStream<Push>
    private let begun: AsyncStream<Push>.Continuation

    init() { (pushes, begun) = AsyncStream.makeStream() }

    func send(_ wake: Wake, to registration: PushRegistration) async -> PushOutcome {
        await withCheckedContinuation { begun.yield(Push(registration: registration, continuation: $0)) }
    }

    func shutdown() async {}
}

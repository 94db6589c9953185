// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// Decides the next step after each attempt to send a wake. It does no I/O and reads no clock.
///
/// There is no durable queue of pushes. ``WakeSchedule`` sends a wake that is given up here again while a command is pending.
package struct PushRetry: Hashable, Sendable {
    package enum Step: Hashable, Sendable {
        /// The wake was sent.
        case finish
        /// Delete the registration, if it is not newer than `since`. The endpoint is still reached when it connects by itself.
        case removeRegistration(since: Milliseconds?)
        /// Send again at once. The channel gets a new access token first.
        case renewCredential
        /// Stop the credential and tell the operator.
        case stopCredential(reason: String)
        /// Send nothing to the registration for a time, in milliseconds, and drop this wake.
        case suspendRegistration(reason: String, for: Int64)
        /// Write the reason to the log and do not send this wake again.
        case reject(reason: String)
        /// Send again after a time, in milliseconds.
        case retry(after: Int64)
        /// Send nothing in the scope for a time, in milliseconds. Then send this wake, or leave it to the schedule if it was the last
        /// attempt.
        case pause(PushScope, for: Int64, isLast: Bool)
        /// Leave the wake to the schedule. The provider accepted the wake and dropped it.
        case drop(reason: String)
        /// Leave the wake to the schedule.
        case leave(reason: String)
    }

    /// The maximum number of attempts when the provider or the network fails, or the provider asks for pauses.
    package static let maximumAttempts = 5
    static let firstDelay: Int64 = 10_000
    /// The pause if the provider names none, in milliseconds.
    static let defaultPause: Int64 = 60_000
    /// The longest pause that a provider can cause, in milliseconds.
    static let maximumPause: Int64 = 3_600_000

    private var attempts = 0
    private var hasRenewed = false

    package init() {}

    /// - Parameters:
    ///   - remaining: Milliseconds until the wake expires.
    ///   - random: Returns a number in 0 ... bound, for the jitter.
    package mutating func step(after outcome: PushOutcome, remaining: Int64, random: (_ bound: Int64) -> Int64) -> Step {
        switch outcome {
        case .accepted: return .finish
        case .gone(let since): return .removeRegistration(since: since)
        case .credentialRejected(let reason):
            guard !hasRenewed else { return .stopCredential(reason: reason) }
            hasRenewed = true
            return .renewCredential
        case .misconfigured(let reason): return .stopCredential(reason: reason)
        // The operator may correct the credential, or the device may register again.
        case .mismatched(let reason): return .suspendRegistration(reason: reason, for: Self.maximumPause)
        case .dropped(let reason): return .drop(reason: reason)
        case .invalid(let reason), .forbidden(let reason): return .reject(reason: reason)
        case .throttled(let scope, let wait):
            let pause = min(max(wait ?? Self.defaultPause, 0), Self.maximumPause)
            attempts += 1
            return .pause(scope, for: pause + random(pause / 10), isLast: attempts >= Self.maximumAttempts)
        case .failed(_, let reason):
            attempts += 1
            guard attempts < Self.maximumAttempts else { return .leave(reason: reason) }
            // Full jitter, so that not all wakes are retried at once.
            let delay = random(Self.firstDelay << Int64(attempts - 1))
            return delay < remaining ? .retry(after: delay) : .leave(reason: reason)
        }
    }
}

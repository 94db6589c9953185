// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

@testable import RelayPush

/// An uptime that goes on only when a test says so, and tells what waits for it.
final class ManualClock: Sendable {
    private struct State {
        var now: Milliseconds = 1_000
        var sleepers: [Int: (end: Milliseconds, continuation: CheckedContinuation<Void, Never>)] = [:]
        var cancelled: Set<Int> = []
        var next = 0
    }

    private let state = Mutex(State())
    private let alarm: AsyncStream<Milliseconds>.Continuation
    /// The ends of the sleeps, as they begin.
    let alarms: AsyncStream<Milliseconds>

    init() { (alarms, alarm) = AsyncStream.makeStream() }

    var now: Milliseconds { state.withLock { $0.now } }

    func sleep(until end: Milliseconds) async {
        let number = state.withLock {
            $0.next += 1
            return $0.next
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let ends = state.withLock {
                    if $0.cancelled.remove(number) != nil || end <= $0.now { return true }
                    $0.sleepers[number] = (end, continuation)
                    return false
                }
                if ends { continuation.resume() }
                alarm.yield(end)
            }
        } onCancel: {
            let sleeper = state.withLock {
                let sleeper = $0.sleepers.removeValue(forKey: number)
                if sleeper == nil { $0.cancelled.insert(number) }
                return sleeper
            }
            sleeper?.continuation.resume()
        }
    }

    func advance(to time: Milliseconds) {
        let due = state.withLock { state in
            state.now = max(state.now, time)
            let due = state.sleepers.filter { $0.value.end <= state.now }
            for number in due.keys { state.sleepers[number] = nil }
            return due.values.map(\.continuation)
        }
        for continuation in due { continuation.resume() }
    }
}

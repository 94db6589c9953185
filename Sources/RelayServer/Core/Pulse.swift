// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import Synchronization

/// When the relay looks for what is due: each second while something happens, and at rest only when something is due. So a relay whose
/// endpoints are connected and silent hardly wakes its machine.
final class Pulse: Sendable {
    /// The pause while something happens.
    static let pause = Duration.seconds(1)
    /// The longest rest. The clock of the machine may be set meanwhile.
    static let longestRest = Duration.seconds(60)

    private struct Rest {
        let continuation: CheckedContinuation<Void, Never>
        let timer: Scheduled<Void>
    }

    private let isBusy = Atomic(true)
    private let rest = Mutex<Rest?>(nil)

    /// Something happens. One read, while the relay is busy.
    func beat() {
        // Ordered after the change that is told: see `begin`.
        guard !isBusy.load(ordering: .sequentiallyConsistent) else { return }
        isBusy.store(true, ordering: .sequentiallyConsistent)
        endRest()
    }

    /// A pass begins. What happens from now on needs another one.
    func begin() { isBusy.store(false, ordering: .sequentiallyConsistent) }

    /// Waits until something happens, or the time is over, or the task is cancelled.
    func rest(for time: Duration, on loop: any EventLoop) async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                rest.withLock { rest in
                    // A timer that is due at once waits for the lock, and finds the rest.
                    let timer = loop.scheduleTask(in: TimeAmount(time)) { self.endRest() }
                    rest = Rest(continuation: continuation, timer: timer)
                }
                if Task.isCancelled || isBusy.load(ordering: .sequentiallyConsistent) { endRest() }
            }
        } onCancel: {
            endRest()
        }
    }

    private func endRest() {
        let ended = rest.withLock { rest in
            defer { rest = nil }
            return rest
        }
        ended?.timer.cancel()
        ended?.continuation.resume()
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch

/// Runs an actor that reads and writes files on a thread of its own, because a slow disk must not hold one of the few threads of Swift's
/// tasks.
final class FileExecutor: SerialExecutor {
    private let queue = DispatchQueue(label: "device-relay.files")

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let executor = asUnownedSerialExecutor()
        queue.async { job.runSynchronously(on: executor) }
    }
}

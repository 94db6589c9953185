// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch

/// Runs an actor that reads and writes files on a thread of its own, because a slow disk must not hold one of the few threads of Swift's
/// tasks. A task that prefers it works with the actor without a change of threads.
final class FileExecutor: SerialExecutor, TaskExecutor {
    private let queue = DispatchQueue(label: "device-relay.files")

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(isolatedTo: self.asUnownedSerialExecutor(), taskExecutor: self.asUnownedTaskExecutor()) }
    }
}

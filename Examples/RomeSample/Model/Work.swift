// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Owns the tasks that buttons start: one for each name, cancelled together.
@MainActor final class Work {
    private var tasks: [String: (number: Int, task: Task<Void, Never>)] = [:]
    private var count = 0

    /// Runs a closure, unless the one of this name still runs: a second tap is not a second launch.
    func run(_ name: String, _ body: @escaping @MainActor () async -> Void) {
        guard tasks[name] == nil else { return }
        count += 1
        let number = count
        let task = Task { [weak self] in
            await body()
            if self?.tasks[name]?.number == number { self?.tasks[name] = nil }
        }
        tasks[name] = (number, task)
    }

    func cancelAll() {
        for entry in tasks.values { entry.task.cancel() }
        tasks = [:]
    }

    deinit { for entry in tasks.values { entry.task.cancel() } }
}

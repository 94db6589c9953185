// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Runs a closure with a time limit.
/// - Returns: `nil` after the time limit.
func within<Result: Sendable>(
    _ duration: Duration,
    _ body: @escaping @Sendable () async throws -> Result?
) async throws -> Result? {
    try await withThrowingTaskGroup(of: Result?.self) { group in
        group.addTask { try await body() }
        group.addTask {
            try? await Task.sleep(for: duration)
            return nil
        }
        defer { group.cancelAll() }
        return try await group.next() ?? nil
    }
}

extension Console {
    /// Shows on the terminal what the command waits for, after one second, and clears the line afterwards.
    func whileWaiting<Result: Sendable>(
        for what: @escaping @Sendable () async -> String,
        _ body: () async throws -> Result
    ) async throws -> Result {
        guard isInteractive else { return try await body() }
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                try await Task.sleep(for: .seconds(1))
                defer { clearProgress() }
                var shown = ""
                while true {
                    let text = await what()
                    if text != shown { showProgress(text) }
                    shown = text
                    try await Task.sleep(for: .milliseconds(500))
                }
            }
            defer { group.cancelAll() }
            return try await body()
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension Console {
    /// A line that says what a command waits for, until there is no text; `nil` without a terminal.
    var waitingLine: (@Sendable (String?) -> Void)? {
        guard isInteractive else { return nil }
        return { text in if let text { showProgress(text) } else { clearProgress() } }
    }
}

extension LocalDevice {
    /// Shows what a command waits for, after one second, and clears the line afterwards.
    func whileWaiting<Result: Sendable>(
        for what: @escaping @Sendable () async -> String,
        _ body: () async throws -> Result
    ) async throws -> Result {
        try await WaitingLine(show: waitingLine).whileWaiting(for: what, body)
    }
}

/// Shows what is waited for.
struct WaitingLine {
    /// `nil` without a terminal.
    let show: (@Sendable (String?) -> Void)?

    func whileWaiting<Result: Sendable>(
        for what: @escaping @Sendable () async -> String,
        _ body: () async throws -> Result
    ) async throws -> Result {
        guard let show else { return try await body() }
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                try await Task.sleep(for: .seconds(1))
                defer { show(nil) }
                var shown = ""
                while true {
                    let text = await what()
                    if text != shown { show(text) }
                    shown = text
                    try await Task.sleep(for: .milliseconds(500))
                }
            }
            defer { group.cancelAll() }
            return try await body()
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Runs a closure for no longer than a duration.
/// - Returns: `nil` if it was not done by then.
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
    /// Says on a terminal what is waited for, if it takes longer than a second; wiped away when it is over.
    func whileWaiting<Result: Sendable>(
        for what: @escaping @Sendable () async -> String,
        _ body: () async throws -> Result
    ) async throws -> Result {
        guard isInteractive else { return try await body() }
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                try await Task.sleep(for: .seconds(1))
                defer { error("\r\u{1B}[K") }
                var shown = ""
                while true {
                    // What does not fit into one line could not be wiped away.
                    let text = String(await what().prefix(79))
                    if text != shown { error("\r\u{1B}[K\(text)") }
                    shown = text
                    try await Task.sleep(for: .milliseconds(500))
                }
            }
            defer { group.cancelAll() }
            return try await body()
        }
    }
}

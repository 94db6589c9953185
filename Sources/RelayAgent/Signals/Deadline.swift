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

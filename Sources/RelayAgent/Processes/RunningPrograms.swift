// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Synchronization

/// Bounds the number of running programs, and makes sure that none remains at the end.
final class RunningPrograms: Sendable {
    static let most = 32

    private let count = Mutex(0)

    /// Runs a closure that runs one program. If the closure throws or is cancelled, all processes with the mark are ended.
    /// After a success, processes that the program left behind keep running.
    /// - Throws: `tooManyPrograms`, and errors of the closure.
    func run<Result>(_ body: (ProgramRunID) async throws -> Result) async throws -> Result {
        let hasRoom = count.withLock { count in
            guard count < Self.most else { return false }
            count += 1
            return true
        }
        guard hasRoom else { throw ProgramFailure.tooManyPrograms }
        defer { count.withLock { $0 -= 1 } }
        let mark = ProgramRunID()
        do {
            let result = try await body(mark)
            try Task.checkCancellation()
            return result
        } catch {
            await mark.endAll()
            throw error
        }
    }

    /// Waits until all programs have ended, at most 5 s. Their tasks must be cancelled.
    func ended() async {
        _ = try? await within(.seconds(5)) {
            while self.count.withLock({ $0 }) > 0 { try await Task.sleep(for: .milliseconds(20)) }
            return true
        }
    }
}

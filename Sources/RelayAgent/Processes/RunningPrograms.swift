// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Synchronization

/// How many programs run, so that nobody can make this machine run any number of them, and so that none is left at the end.
final class RunningPrograms: Sendable {
    static let most = 32

    private let count = Mutex(0)

    /// Runs a closure that runs one program. If it fails or is cancelled, all that has the mark is ended; what a program leaves behind that
    /// ended well goes on.
    /// - Throws: `tooManyPrograms`, and what the closure throws.
    func run<Result>(_ body: (ProgramMark) async throws -> Result) async throws -> Result {
        let hasRoom = count.withLock { count in
            guard count < Self.most else { return false }
            count += 1
            return true
        }
        guard hasRoom else { throw ProgramFailure.tooManyPrograms }
        defer { count.withLock { $0 -= 1 } }
        let mark = ProgramMark()
        do {
            let result = try await body(mark)
            try Task.checkCancellation()
            return result
        } catch {
            await mark.endAll()
            throw error
        }
    }

    /// Waits for the end of those whose tasks were cancelled; for no longer than they have.
    func ended() async {
        _ = try? await within(.seconds(5)) {
            while self.count.withLock({ $0 }) > 0 { try await Task.sleep(for: .milliseconds(20)) }
            return true
        }
    }
}

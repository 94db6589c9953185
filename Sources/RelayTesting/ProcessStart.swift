// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation

/// Processes are started one at a time. Foundation's `Process` closes, in the child, the descriptors that were open when it looked:
/// one that another thread opened since (a pipe, or the socket by which a process's end is noticed) lives on in the foreign child,
/// and whoever reads to its end waits for as long as that child lives. For tests only.
package enum ProcessStart {
    private static let turn = NSLock()

    /// - Parameter body: makes a process's pipes, and runs it.
    package static func alone<Result>(_ body: () throws -> Result) rethrows -> Result { try turn.withLock(body) }

    /// Runs a process.
    /// - Returns: what it prints.
    package static func reading(_ process: Process) throws -> FileHandle {
        try alone {
            let output = Pipe()
            process.standardOutput = output
            try process.run()
            return output.fileHandleForReading
        }
    }
}

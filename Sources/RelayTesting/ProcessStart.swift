// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation

/// Starts processes one at a time. In the child, Foundation's `Process` closes only the descriptors that were open when it looked. If
/// another thread opens a descriptor after that (a pipe, or the socket that reports the end of a process), an unrelated child inherits it.
/// A reader of that pipe then waits until that child ends. For tests only.
package enum ProcessStart {
    private static let lock = NSLock()

    /// - Parameter body: Makes a process's pipes and runs the process.
    package static func alone<Result>(_ body: () throws -> Result) rethrows -> Result { try lock.withLock(body) }

    /// Runs a process.
    /// - Returns: The process's standard output.
    package static func reading(_ process: Process) throws -> FileHandle {
        try alone {
            let output = Pipe()
            process.standardOutput = output
            try process.run()
            return output.fileHandleForReading
        }
    }
}

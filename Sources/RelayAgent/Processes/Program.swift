// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Subprocess

#if canImport(System)
import System
#else
import SystemPackage
#endif

/// A program with its arguments, as a vector. No shell is involved.
struct Program: Hashable, Sendable {
    /// The first element is the program: a path, or a name that is searched in `PATH`.
    var arguments: [String]

    /// Starts the program in its own session: signals of this process's terminal do not reach it, and its process group can
    /// be signalled as a whole.
    func configuration(_ environment: [String: String]) -> Subprocess.Configuration {
        var options = PlatformOptions()
        options.createSession = true
        options.teardownSequence = [.gracefulShutDown(toProcessGroup: true, allowedDurationToNextStep: .seconds(2))]
        let name = arguments.first ?? ""
        return Subprocess.Configuration(
            executable: name.utf8.contains(UInt8(ascii: "/")) ? .path(FilePath(name)) : .name(name),
            arguments: Arguments(Array(arguments.dropFirst())),
            environment: .custom(Dictionary(uniqueKeysWithValues: environment.map { (Environment.Key(stringLiteral: $0), $1) })),
            platformOptions: options
        )
    }
}

extension Program {
    /// Whether the program exists now.
    var isThere: Bool { isThere(path: ProcessInfo.processInfo.environment["PATH"] ?? "") }

    /// - Parameter path: The folders in which a name is searched, as in `PATH`.
    func isThere(path: String) -> Bool {
        guard let name = arguments.first else { return false }
        if name.utf8.contains(UInt8(ascii: "/")) { return access(name, X_OK) == 0 }
        let folders = path.utf8.split(separator: UInt8(ascii: ":"))
        return folders.contains { access("\(Substring($0))/\(name)", X_OK) == 0 }
    }

    /// Describes why the program could not start.
    func describe(_ error: SubprocessError) -> String {
        let name = arguments.first ?? ""
        return error.code == .executableNotFound ? "\(name) is not there, or cannot be executed" : "\(name) cannot be started"
    }
}

/// Why a program run failed.
enum ProgramFailure: Error, Sendable {
    case cannotStart(String)
    case ended(TerminationStatus)
    case tooMuchOutput
    case tooManyPrograms
    case timedOut(Duration)

}

extension TerminationStatus {
    /// The predicate of a sentence whose subject is the program.
    var words: String {
        switch self {
        case .exited(let code): "ended with exit code \(code)"
        case .signaled(let number): "was ended by signal \(number)"
        }
    }
}

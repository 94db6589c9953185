// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Subprocess

#if canImport(System)
import System
#else
import SystemPackage
#endif

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// A program of this machine with its arguments: a vector, which no shell ever sees.
struct Program: Hashable, Sendable {
    /// The first is the program: a path, or a name that is looked for in `PATH`.
    var arguments: [String]

    /// With a session of its own: a signal to this process's terminal does not reach it, and it can be ended with all it has started.
    func configuration(environment: [String: String] = [:]) -> Subprocess.Configuration {
        var options = PlatformOptions()
        options.createSession = true
        options.teardownSequence = [.gracefulShutDown(toProcessGroup: true, allowedDurationToNextStep: .seconds(2))]
        let name = arguments.first ?? ""
        return Subprocess.Configuration(
            executable: name.utf8.contains(UInt8(ascii: "/")) ? .path(FilePath(name)) : .name(name),
            arguments: Arguments(Array(arguments.dropFirst())),
            environment: .inherit.updating(Dictionary(uniqueKeysWithValues: environment.map { (Environment.Key(stringLiteral: $0), $1) })),
            platformOptions: options
        )
    }
}

extension Program {
    /// Why it could not be started.
    func trouble(_ error: SubprocessError) -> String {
        let name = arguments.first ?? ""
        return error.code == .executableNotFound ? "\(name) is not there, or cannot be executed" : "\(name) cannot be started"
    }
}

/// How a program ended that should not have.
enum ProgramFailure: Error, Sendable {
    case cannotStart(String)
    case ended(TerminationStatus)
    case tooMuchOutput
    case tooManyPrograms
    case timedOut(Duration)

}

extension TerminationStatus {
    /// As in "it …".
    var words: String {
        switch self {
        case .exited(let code): "ended with exit code \(code)"
        case .signaled(let number): "was ended by signal \(number)"
        }
    }
}

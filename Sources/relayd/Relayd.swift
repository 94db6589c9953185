// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import BuildVersion
import ProgramTexts
import RelayIssuer
import RelayProtocol
import RelayServer
import RelayStorage

#if os(Linux)
import CLinux
#endif

@main
struct Relayd: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "relayd",
        abstract: localized("The relay service of Device Relay."),
        version: "relayd \(BuildVersion.text)",
        subcommands: [
            ServeCommand.self, AccountCommand.self, InviteCommand.self, EndpointCommand.self, TokenCommand.self, AppCommand.self,
            ResourceServerCommand.self, NodeCommand.self, StoreCommand.self, BackupCommand.self, RestoreCommand.self, LimitsCommand.self,
            DoctorCommand.self, DemoCommand.self,
        ],
        defaultSubcommand: ServeCommand.self
    )

    /// Replaces ArgumentParser's `main` for the exit codes: 2 for what fails again until a person changes something, 1 for any other error.
    static func main() async {
        ProcessSignals.begin()
        StandardDescriptor.openClosed()
        #if os(Linux)
        // A short scheduler time slice reduces the latency of a woken thread. Threads that start later inherit it.
        clinux_set_short_time_slice()
        #endif
        if let problem = ArgumentVector.problem(CommandLine.argc, CommandLine.unsafeArgv) {
            leave("relayd: \(localized(problem))", code: 2)
        }
        do {
            var command = try parseAsRoot()
            if !(command is ServeCommand) { ProcessSignals.endDefault() }
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
        } catch let error as ConfigurationError {
            leave("relayd: \(localized("\(error)"))", code: 2)
        } catch let error as OutputError {
            leave(error)
        } catch let code as ExitCode {
            // The output has said why.
            exit(withError: code)
        } catch {
            switch exitCode(for: error) {
            case .success:
                let text = fullMessage(for: error)
                do throws(OutputError) { if !text.isEmpty { try print(asIs: ParserText.translated(text)) } } catch { leave(error) }
                exit(withError: ExitCode.success)
            case .validationFailure: leave(ParserText.translated(fullMessage(for: error)), code: 2)
            default: leave("relayd: \(localized("\(error)"))", code: Self.needsAPerson(error) ? 2 : 1)
            }
        }
    }

    /// Whether the same start fails again until somebody changes the data or the program, as it does with wrong settings.
    private static func needsAPerson(_ error: any Error) -> Bool {
        switch error {
        case StoreError.tooNew, StoreError.notADatabase, StoreError.ofOtherRelay, IssuerError.databaseTooNew: true
        default: false
        }
    }

    private static func leave(_ error: OutputError) -> Never {
        if !error.isReaderGone { StandardStream.error.writeLine("relayd: \(localized("\(error)"))") }
        exit(withError: ExitCode.failure)
    }

    private static func leave(_ message: String, code: Int32) -> Never {
        StandardStream.error.writeLine(message)
        exit(withError: ExitCode(code))
    }
}

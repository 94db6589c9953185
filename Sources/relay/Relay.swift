// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import BuildVersion
import Foundation
import ProgramTexts
import RelayAgent
import RelayProtocol

@main
struct Relay: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "relay",
        abstract: localized("Find your other devices, open links on them, and let them open links here."),
        discussion: localized(
            """
            Begin with `relay login URL`, or with `relay join`, which asks for a link; the link comes from `relayd invite` or, on another device, from `relay invite`.
            Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not signed in, 4 not found, 5 unreachable, 6 declined, 7 expired, 8 no answer in time,
            9 incomplete.
            `relay completions bash` (zsh, fish) prints completions for a shell.
            """
        ),
        version: "relay \(BuildVersion.text)",
        subcommands: [
            LoginCommand.self, JoinCommand.self, LeaveCommand.self, ProfilesCommand.self, ProfileCommand.self, AccountCommand.self,
            SessionsCommand.self,
            InviteCommand.self, WhoAmICommand.self, RenameCommand.self, DevicesCommand.self, WatchCommand.self, NearbyCommand.self,
            LaunchCommand.self, CommandsCommand.self, CancelCommand.self, CallCommand.self, PingCommand.self, FetchCommand.self,
            SendCommand.self, ReceiveCommand.self, CopyCommand.self, PasteCommand.self,
            PairCommand.self, UnpairCommand.self,
            ApproveCommand.self, VerifyCommand.self, RevokeCommand.self, HostCommand.self, AgentCommand.self,
            ConsoleCommand.self, AsksCommand.self, GrantsCommand.self, TokenCommand.self, AuditCommand.self, DoctorCommand.self,
            CompletionsCommand.self,
        ]
    )

    /// Replaces ArgumentParser's `main` for the exit codes and for errors as JSON.
    static func main() async {
        // Read from the raw arguments, so that parse errors are JSON too.
        let isJSON = CommandLine.arguments.prefix { $0 != "--" }.contains("--json")
        let console = Console.standard(isJSON: isJSON, environment: ProcessInfo.processInfo.environment)
        EndingSignals.install()
        do {
            if let problem = ArgumentVector.problem(CommandLine.argc, CommandLine.unsafeArgv) {
                throw AgentError("usage", problem, .usage)
            }
            guard CommandLine.argc > 1 else { throw ValidationError("A command is missing; see 'relay --help'") }
            try CommandName.check(Array(CommandLine.arguments.dropFirst()), of: Self.self)
            var command = try await asyncParseAsRoot(nil)
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
        } catch let code as ExitCode {
            exit(withError: code)
        } catch {
            switch exitCode(for: error) {
            case .success:
                // Help, the version, or the answer to a shell that completes a word.
                let text = fullMessage(for: error)
                do { if !text.isEmpty { try console.print(text: ParserText.translated(text)) } } catch { exit(withError: ExitCode.failure) }
                exit(withError: ExitCode.success)
            case .validationFailure:
                if isJSON {
                    console.fail(AgentError("usage", message(for: error), .usage))
                } else {
                    console.log(ParserText.translated(fullMessage(for: error)))
                }
                exit(withError: ExitCode(ExitStatus.usage.rawValue))
            default:
                let failure = AgentError(error)
                console.fail(failure)
                if let number = failure.signal {
                    // Dispatch blocks signals in its threads; `raise` needs the signal unblocked.
                    var signals = sigset_t()
                    sigemptyset(&signals)
                    sigaddset(&signals, number)
                    pthread_sigmask(SIG_UNBLOCK, &signals, nil)
                    signal(number, SIG_DFL)
                    raise(number)
                }
                exit(withError: ExitCode(failure.status.rawValue))
            }
        }
    }
}

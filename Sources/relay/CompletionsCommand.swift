// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation
import ProgramTexts
import RelayAgent

struct CompletionsCommand: AsyncParsableCommand {
    enum Shell: String, ExpressibleByArgument, CaseIterable {
        case bash, zsh, fish
    }

    static let configuration = CommandConfiguration(
        commandName: "completions",
        abstract: localized("Print a script that makes the shell complete commands, options and device names."),
        discussion: localized(
            """
            bash: relay completions bash > ~/.local/share/bash-completion/completions/relay
            zsh:  relay completions zsh > DIR/_relay, where DIR is a folder of $fpath
            fish: relay completions fish > ~/.config/fish/completions/relay.fish
            """
        )
    )

    @Argument(help: .text("bash, zsh or fish.")) var shell: Shell

    func run() async throws {
        let shell: CompletionShell =
            switch self.shell {
            case .bash: .bash
            case .zsh: .zsh
            case .fish: .fish
            }
        let console = try CommonOptions.context(home: nil, profile: HomeAccounts.first, isJSON: false).console
        try console.print(text: Relay.completionScript(for: shell))
    }
}

extension CompletionKind {
    /// Completes names of the account's other devices.
    static var devices: CompletionKind {
        .custom { words, _, _ in
            guard let context = context(words) else { return [] }
            return await Completion.devices(context)
        }
    }

    /// Completes ids of the account's other devices.
    static var deviceIDs: CompletionKind {
        .custom { words, _, _ in
            guard let context = context(words) else { return [] }
            return await Completion.ids(context)
        }
    }

    /// Completes ids of endpoints that are not approved.
    static var newEndpointIDs: CompletionKind {
        .custom { words, _, _ in
            guard let context = context(words) else { return [] }
            return await Completion.newIDs(context)
        }
    }

    /// Completes names of the home's profiles.
    static var profiles: CompletionKind {
        .custom { words, _, _ in context(words).map(Completion.profiles) ?? [] }
    }

    private static func context(_ words: [String]) -> AgentContext? {
        func value(of option: String) -> String? { words.firstIndex(of: option).flatMap { words.dropFirst($0 + 1).first } }
        let profile = value(of: "--profile").flatMap { try? HomeAccounts.checked($0) }
        // The shell reads the completions; nothing else may be printed.
        return try? CommonOptions.context(home: value(of: "--home"), profile: profile, isJSON: true)
    }
}

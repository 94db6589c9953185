// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayAgent

struct InviteCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "invite",
        abstract: localized("Print a link that lets one more device join within ten minutes.")
    )

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let context = try common.context
        let invitation = try await Invite().run(context)
        try context.console.print(invitation)
        try await context.console.showQRCode(of: invitation.link)
    }
}

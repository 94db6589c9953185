// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Creates a join link for one more device.
package struct Invite: Sendable {
    package init() {}

    package struct Result: AgentResult {
        package var link: String
        /// In seconds.
        package var expiresIn: Int

        package func lines(_ style: Style) -> [String] { [link] }
    }

    package func run(_ context: AgentContext) async throws -> Result {
        try await context.withAccount { local in
            try await local.waitForDirectory()
            let link = try await local.platform.accounts.invite(to: local.account)
            if !context.console.isJSON {
                context.console.note(
                    "Run `relay join` on the new device, and paste the link there. It works once, for ten minutes. Anyone who has it can join."
                )
            }
            return Result(link: link.text, expiresIn: 600)
        }
    }
}

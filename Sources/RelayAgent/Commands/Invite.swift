// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Creates a join link for one more device.
package struct Invite: RoutedCommand {
    package init() {}

    package struct Result: AgentResult, Codable {
        package var link: String
        /// In seconds.
        package var expiresIn: Int

        package func lines(_ style: Style) -> [String] { [link] }

        package var notes: [String] {
            ["Run `relay join` on the new device, and paste the link there. It works once, for ten minutes. Anyone who has it can join."]
        }
    }

    package func request() throws -> APIRequest { try APIRequest(.post, "invitations").with(body: [String: String]()) }

    package func run(on local: LocalDevice) async throws -> Result {
        try local.checkHasRelay()
        try await local.waitForDirectory()
        return Result(link: try await local.platform.accounts.invite(to: local.account).text, expiresIn: 600)
    }
}

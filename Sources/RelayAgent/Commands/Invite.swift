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
            let use =
                "Run `relay join` on the new device, and paste the link there. It works once, for ten minutes. Anyone who has it can join."
            let origin = (try? JoinLink(parsing: link, plainHTTP: .allowed)).flatMap { Origin($0.origin) }
            guard let origin, origin.isLoopback else { return [use] }
            return [use, Self.local(port: origin.port)]
        }

        private static func local(port: Int) -> String {
            "The link leads to a relay that only this machine can reach. To let other devices reach it, run the relay with one more address: "
                + "relayd serve --listen 127.0.0.1:\(port) --listen 0.0.0.0:8443"
        }
    }

    package func request() throws -> APIRequest { try APIRequest(.post, "invitations").with(body: [String: String]()) }

    package func run(on local: LocalDevice) async throws -> Result {
        try local.checkHasRelay()
        try await local.waitForDirectory()
        return Result(link: try await local.platform.accounts.invite(to: local.account).text, expiresIn: 600)
    }
}

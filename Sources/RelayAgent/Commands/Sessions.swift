// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Prints the login of this device. It works without the relay.
package struct Sessions: Sendable {
    package init() {}

    package struct Result: AgentResult {
        package var profile: String
        package var relay: String
        /// Absent if the app that signed this device in keeps the login itself.
        package var issuer: String?
        package var client: String?
        package var session: String?
        package var scopes: [String]
        /// Whether `others` are listed. No issuer tells a device the account's other logins.
        package var listed = false
        /// The page that shows the account's logins to its user, if it is known.
        package var page: String?

        package func lines(_ style: Style) -> [String] {
            let login = [
                issuer.map { "issuer   \(DisplayText.sanitized($0))" }, client.map { "client   \(DisplayText.sanitized($0))" },
                session.map { "session  \(DisplayText.sanitized($0))" },
                scopes.isEmpty ? nil : "scopes   \(DisplayText.sanitized(scopes.joined(separator: " ")))",
            ].compactMap { $0 }
            let others =
                page.map { "The account's other logins are on its page: \($0)" }
                ?? "The issuer does not tell this device the account's other logins; see its own pages."
            return ["relay    \(relay)"] + login + ["", others]
        }
    }

    package func run(_ context: AgentContext) throws -> Result {
        guard try context.home.membership().hasRelay else { throw AgentError.withoutAccount }
        let login = try context.storedEndpoint().login
        return Result(
            profile: context.account,
            relay: try context.home.membership().relay,
            issuer: login?.issuer,
            client: login?.clientID,
            session: login?.session,
            scopes: login?.scopes.map(\.rawValue).sorted() ?? [],
            page: login.flatMap { $0.isOfRelay ? $0.issuer + "/account" : nil }
        )
    }
}

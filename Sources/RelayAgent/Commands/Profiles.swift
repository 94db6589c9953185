// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Lists the profiles of a home, and asks their relays whether they accept the login.
package struct Profiles: Sendable {
    private static let patience = Duration.seconds(5)

    package init() {}

    package struct Profile: Encodable, Sendable {
        package var name: String
        /// The account's name at the relay, if the relay has stated one.
        package var accountName: String?
        /// Whether commands use it.
        package var current: Bool
        package var relay: String?
        package var relayID: String?
        package var issuer: String?
        package var deviceName: String?
        package var endpoint: String?
        /// `connected`, or the code of the problem.
        package var state: String
        package var message: String?
    }

    package struct Result: AgentResult {
        package var profiles: [Profile]

        package func lines(_ style: Style) -> [String] {
            guard !profiles.isEmpty else { return [] }
            var table = Table("", "PROFILE", "ACCOUNT", "RELAY", "DEVICE", "ISSUER", "STATE")
            for account in profiles {
                table.add(
                    .init(account.current ? "*" : ""),
                    .init(name: account.name, .strong),
                    .init(name: account.accountName ?? "-"),
                    .init(name: account.relay ?? "-"),
                    .init(name: account.deviceName ?? "-"),
                    .init(name: account.issuer.map(DisplayText.sanitized) ?? "-"),
                    .init(Words.connection(account.state), account.state == Self.connected ? nil : .attention)
                )
            }
            return table.lines(style)
        }

        static let connected = "connected"
    }

    package func run(_ context: AgentContext) async throws -> Result {
        let (names, current) = (try context.accounts.names(), context.account)
        if names.isEmpty, !context.console.isJSON {
            context.console.note("there is no profile: run relay login URL, or relay join")
        }
        let accounts = await withTaskGroup(of: Profile.self) { group in
            for name in names {
                let one = AgentContext(accounts: context.accounts, account: name, console: context.console, version: context.version)
                group.addTask { await Self.account(one, isCurrent: name == current) }
            }
            return await group.reduce(into: [:]) { $0[$1.name] = $1 }
        }
        return Result(profiles: names.compactMap { accounts[$0] })
    }

    private static func account(_ context: AgentContext, isCurrent: Bool) async -> Profile {
        var account = Profile(name: context.account, current: isCurrent, state: Result.connected)
        do {
            let membership = try context.home.membership()
            account.deviceName = membership.name
            guard membership.hasRelay else {
                account.state = "paired"
                return account
            }
            (account.relay, account.relayID) = (membership.relay, "\(membership.relayID)")
            let endpoint = try context.storedEndpoint()
            (account.issuer, account.endpoint, account.accountName) = (endpoint.login?.issuer, "\(endpoint.id)", endpoint.accountName)
            let found = account
            account = try await context.withAccount { local in
                var account = found
                do {
                    try await local.waitForDirectory(patience)
                } catch {
                    let error = AgentError(error)
                    (account.state, account.message) = (error.code, error.message)
                }
                account.accountName = local.accountName
                return account
            }
        } catch {
            let error = AgentError(error)
            (account.state, account.message) = (error.code, error.message)
        }
        return account
    }
}

/// Makes commands use a profile of the home.
package struct UseProfile: Sendable {
    var name: String

    package init(_ name: String) { self.name = name }

    package struct Result: AgentResult {
        package var current: String

        package func lines(_ style: Style) -> [String] { ["commands now use the profile \(style.show(current, .strong))"] }
    }

    package func run(_ context: AgentContext) throws -> Result {
        try context.accounts.use(HomeAccounts.checked(name))
        return Result(current: name)
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// Makes this machine a device of the account of a join link.
package struct Join: Sendable {
    var link: String
    var name: String?
    var allowsPlainHTTP: Bool
    var caFile: String?
    var isConfirmed: Bool

    /// - Parameters:
    ///   - link: The join link.
    ///   - name: The name that other devices show; `nil` for the host name.
    ///   - allowsPlainHTTP: Whether to accept a link to plain HTTP on another machine.
    ///   - caFile: A PEM file of the authorities that may sign the relay's certificate; `nil` for the system's.
    ///   - isConfirmed: Whether to join without a question. By default the person at a terminal confirms the account before this device is in it.
    package init(link: String, name: String?, allowsPlainHTTP: Bool, caFile: String? = nil, isConfirmed: Bool = false) {
        self.link = link
        self.name = name
        self.allowsPlainHTTP = allowsPlainHTTP
        self.caFile = caFile.map { URL(filePath: $0).standardizedFileURL.path }
        self.isConfirmed = isConfirmed
    }

    package struct Result: AgentResult {
        package var relay: String
        package var relayID: String
        /// The account's name at the relay, if the relay has stated one.
        package var accountName: String?
        package var name: String
        package var device: String
        package var endpoint: String
        /// Whether the relay has accepted this device.
        package var connected: Bool
        /// Whether this device had already joined. It has stored the relay's new address, and the link was not used.
        package var moved = false

        package func lines(_ style: Style) -> [String] {
            if moved {
                return [
                    "\(style.show(name, .strong)) now reaches its relay at \(relay); keys and approvals stay, and the link is unused",
                    "restart `relay agent` or `relay host` if one runs",
                ]
            }
            return ["joined \(AccountText.place(accountName, at: relay)) as \(style.show(name, .strong)) (device \(device.prefix(8)))"]
        }
    }

    package func run(_ context: AgentContext) async throws -> Result {
        // Plain HTTP is safe on this machine. `checkAddress` decides on other machines.
        let link = try Self.parsed(link)
        try checkAddress(of: link)
        return try await context.home.changingAccount { try await join(link, context) }
    }

    private func join(_ link: JoinLink, _ context: AgentContext) async throws -> Result {
        // Without a terminal the link itself says which account is meant.
        let asks = !isConfirmed && context.console.canAsk
        let stored = try context.home.storedMembership()
        var known = try context.home.storedRelay()
        if let unfinished = known, unfinished.isUnconfirmed ?? false, !asks || unfinished.relayID != link.relay {
            try await context.forgetUnfinished(unfinished)
            known = nil
        }
        if let known, known.relayID != link.relay {
            throw AgentError(
                "alreadyJoined",
                "this profile is an account at \(known.relay). To join another relay, run: relay join --profile NAME",
                .failed
            )
        }
        if let caFile, (try? TrustRoots.certificates(in: URL(filePath: caFile))) == nil {
            throw AgentError("caFileUnreadable", "'\(caFile)' cannot be read, or holds no certificate in PEM form", .usage)
        }
        let device = DeviceDescription.thisDevice
        var membership = Membership(
            relay: link.origin,
            relayID: link.relay,
            name: try Membership.checked(name ?? stored?.name ?? device.name),
            kind: stored?.kind ?? device.kind,
            allowsPlainHTTP: allowsPlainHTTP,
            caFile: caFile ?? known?.caFile
        )
        let isUnfinished = known?.isUnconfirmed ?? false
        let isNew = known == nil || isUnfinished
        let interruption = CancellationSignal()
        let question = asks ? AccountQuestion(membership, context, interruption: interruption) : nil
        membership.isUnconfirmed = isNew && asks ? true : nil
        // Stored before the link is used, so that a crash leaves no account that no command can find.
        if isNew { try context.home.store(membership) }
        return try await joined(link, membership, known: isNew ? nil : known, isUnfinished, question, interruption, context)
    }

    private func joined(
        _ link: JoinLink,
        _ membership: Membership,
        known: Membership?,
        _ isUnfinished: Bool,
        _ question: AccountQuestion?,
        _ interruption: CancellationSignal,
        _ context: AgentContext
    ) async throws -> Result {
        var hasJoined = false
        do {
            return try await context.withPlatform(membership, asking: question?.isConfirmed) { local in
                if isUnfinished, local.isJoined, try await isFinished(local) { return try await result(local, membership) }
                hasJoined = local.isJoined && !isUnfinished
                if hasJoined {
                    guard try await isLoginOver(local) else {
                        guard let known, known.relay != membership.relay || known.caFile != membership.caFile else {
                            throw AgentError(
                                "alreadyJoined",
                                "this device has joined already, and is signed in; to join again, run `relay leave` first",
                                .failed
                            )
                        }
                        try context.home.store(membership)
                        if membership.name != known.name { try await local.platform.rename(membership.name) }
                        var result = try await result(local, membership)
                        result.moved = true
                        return result
                    }
                }
                try await local.platform.accounts.add(local.account, joining: link)
                hasJoined = true
                if known != nil { try context.home.store(membership) }
                if let known, membership.name != known.name { try await local.platform.rename(membership.name) }
                // The first enumeration pins what the account has (a link of the relay) or the inviter (a link of a device). Without the
                // relay this happens later.
                if (try? await local.waitForDirectory()) != nil, !context.console.isJSON, let namesake = local.namesake() {
                    context.console.note(namesake)
                }
                return try await result(local, membership)
            }
        } catch {
            // If the link may be used up, the same command is to find the keys that can use it again.
            let mayHaveUsedLink = (error as? AccountError)?.mayHaveUsedLink ?? false
            if known == nil, !hasJoined, !mayHaveUsedLink { try? context.home.removeMembership() }
            if interruption.isThere { throw interruption.failure() }
            throw AgentError(error).code == AgentError.accountOfLinkNotConfirmed.code ? AgentError.accountOfLinkNotConfirmed : error
        }
    }

    /// Whether the person now confirms the account of a link that an earlier command has used, and the relay accepts its login.
    private func isFinished(_ local: LocalDevice) async throws -> Bool {
        do {
            try await local.waitForPerson(Self.patience)
            return true
        } catch let problem as ConnectionError {
            if problem.code == .authenticationError { return false }
            if problem.code == .accountNotConfirmed { try await local.platform.accounts.remove(local.account) }
            throw problem
        }
    }

    /// How long a person gets for the answer.
    private static let patience = Duration.seconds(10 * 60)

    /// The characters of a relay's code: base64url of 16 bytes. One with fewer was cut off, and the relay could only say that it does not know it.
    private static let shortestInvite = 22

    private static func parsed(_ text: String) throws -> JoinLink {
        let link: JoinLink
        do throws(JoinLinkError) {
            link = try JoinLink(parsing: text, plainHTTP: .allowed)
        } catch {
            if let other = KnownLink(text) { throw other.error }
            // The address of a relay, without the part that a link has.
            guard !text.utf8.contains(UInt8(ascii: "#")), let url = URL(exactly: text),
                (try? RelayAddress(url, allowsPlaintext: true)) != nil
            else { throw error }
            throw AgentError(
                "linkInvalid",
                "this is a relay's address, not a join link, which comes from `relay invite` on another device, or `relayd invite`. To sign in there, run: \(ShellText.command("relay login", text))",
                .usage
            )
        }
        guard link.invite.exposed.utf8.count >= shortestInvite else {
            throw AgentError("linkInvalid", "the end of the join link is missing; copy the whole link", .usage)
        }
        return link
    }

    private func checkAddress(of link: JoinLink) throws {
        guard let url = URL(exactly: link.origin) else { throw JoinLinkError.address }
        do throws(RelayAddress.Problem) {
            _ = try RelayAddress(url, allowsPlaintext: allowsPlainHTTP)
        } catch {
            guard error == .notEncrypted else { throw JoinLinkError.address }
            throw AgentError(
                "plainHTTP",
                "this join link leads to plain HTTP on another machine, which others on the network can read; --allow-http accepts it anyway",
                .usage
            )
        }
    }

    /// Whether the relay at the link's address, which has proved to be the known one, no longer accepts this device's login.
    /// A login that is still valid is kept, and the link is not used.
    private func isLoginOver(_ local: LocalDevice) async throws -> Bool {
        do {
            try await local.waitForDirectory()
            return false
        } catch let problem as ConnectionError where problem.code == .authenticationError {
            return true
        }
    }

    private func result(_ local: LocalDevice, _ membership: Membership) async throws -> Result {
        let accounts = local.platform.accounts
        return Result(
            relay: membership.relay,
            relayID: "\(membership.relayID)",
            accountName: local.accountName,
            name: membership.name,
            device: "\(try accounts.systemID)",
            endpoint: accounts.endpoint(of: local.account)?.description ?? "",
            connected: await local.connectionState()?.isConnected ?? false
        )
    }
}

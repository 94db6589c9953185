// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Makes this machine a device of the account that a link is for.
package struct Join: Sendable {
    var link: String
    var name: String?
    var insecure: Bool

    package init(link: String, name: String?, insecure: Bool) {
        self.link = link
        self.name = name
        self.insecure = insecure
    }

    package struct Result: AgentResult {
        package var relay: String
        package var relayID: String
        package var name: String
        package var device: String
        package var endpoint: String
        /// The relay has let this device in by now.
        package var connected: Bool

        package func lines(_ style: Style) -> [String] {
            ["joined \(relay) as \(style.show(name, .strong)) (device \(device.prefix(8)))"]
        }
    }

    package func run(_ context: AgentContext) async throws -> Result {
        // On this machine plain HTTP is safe; elsewhere the platform's settings decide.
        let link = try JoinLink(parsing: link, plainHTTP: .allowed)
        try checkAddress(of: link)
        let known = try context.home.storedMembership()
        if let known, known.relayID != link.relay {
            throw AgentError(
                "alreadyJoined",
                "this device has joined \(known.relay) already; run `relay leave` first, or give another --home",
                .failed
            )
        }
        let device = DeviceDescription.thisDevice
        let membership = Membership(
            relay: link.origin,
            relayID: link.relay,
            name: try Membership.checked(name ?? known?.name ?? device.name),
            kind: known?.kind ?? device.kind,
            insecure: insecure
        )
        // Before the link is used up, so that nothing is left over that no command finds.
        if known == nil { try context.home.store(membership) }
        do {
            return try await context.withSession(membership) { session in
                if session.isJoined { try await checkLoginIsOver(session) }
                try await session.platform.accounts.add(session.account, joining: link)
                try context.home.store(membership)
                // Who is there now is known from the start; who comes later is new. Without the relay that waits for the next command.
                try? await session.waitForDirectory()
                return try await result(session)
            }
        } catch {
            if known == nil { try? context.home.removeMembership() }
            throw error
        }
    }

    private func checkAddress(of link: JoinLink) throws {
        guard let url = URL(string: link.origin) else { throw JoinLinkError.address }
        do throws(RelayAddress.Problem) {
            _ = try RelayAddress(url, allowsPlaintext: insecure)
        } catch {
            guard error == .notEncrypted else { throw JoinLinkError.address }
            throw AgentError(
                "plainHTTP",
                "this join link leads to plain HTTP on another machine, which everybody on the way can read; with --insecure it is taken all the same",
                .usage
            )
        }
    }

    /// A login that lasts need not be made again, and a link not be used for it.
    private func checkLoginIsOver(_ session: Session) async throws {
        do {
            try await session.waitForDirectory()
        } catch let problem as ConnectionProblem where problem.code == .authenticationError {
            return
        }
        throw AgentError(
            "alreadyJoined",
            "this device has joined already, and is signed in; to join anew, run `relay leave` first",
            .failed
        )
    }

    private func result(_ session: Session) async throws -> Result {
        let accounts = session.platform.accounts
        return Result(
            relay: session.membership.relay,
            relayID: "\(session.membership.relayID)",
            name: session.membership.name,
            device: "\(try accounts.systemID)",
            endpoint: accounts.endpoint(of: session.account)?.description ?? "",
            connected: await session.connectionState()?.isConnected ?? false
        )
    }
}

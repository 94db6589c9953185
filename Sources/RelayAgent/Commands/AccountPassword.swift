// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// Sets the password of an account at the relay's own issuer, without a browser: by a set-up link, by the present password, or by a recovery
/// code.
package struct AccountPassword: Sendable {
    var link: String?
    var user: String?
    var relay: String?
    var keepsOthers: Bool
    var allowsPlainHTTP: Bool
    var caFile: String?

    /// - Parameters:
    ///   - link: The set-up link; `-` reads it. `nil` asks for it, if `user` is `nil`, too.
    ///   - user: The account whose present password is asked for.
    ///   - relay: The relay's URL, perhaps with its id, if there is no link; `nil` for that of this device's account.
    ///   - keepsOthers: Whether passkeys, apps and devices stay when a set-up link is used, where it leaves the choice.
    ///   - allowsPlainHTTP: Whether to accept plain HTTP to another machine.
    ///   - caFile: A PEM file of the authorities that may sign the relay's certificate; `nil` for the system's.
    package init(link: String?, user: String?, relay: String?, keepsOthers: Bool, allowsPlainHTTP: Bool, caFile: String?) {
        self.link = link
        self.user = user
        self.relay = relay
        self.keepsOthers = keepsOthers
        self.allowsPlainHTTP = allowsPlainHTTP
        self.caFile = caFile
    }

    package struct Result: AgentResult {
        package var event = "passwordSet"
        package var accountName: String
        package var relay: String
        /// New ones, if the account had none.
        package var recoveryCodes: [String]

        package func lines(_ style: Style) -> [String] {
            ["the password of \(AccountText.place(style.show(accountName, .strong), at: relay)) is set"] + codeLines(recoveryCodes)
        }
    }

    /// Recovery codes, as a person has to keep them.
    static func codeLines(_ codes: [String]) -> [String] {
        guard !codes.isEmpty else { return [] }
        return ["Write these recovery codes down. They are shown only now. Each works once, instead of a lost password:"]
            + codes.map { "  \($0)" }
    }

    package func run(_ context: AgentContext) async throws -> Result {
        if let caFile, (try? TrustRoots.certificates(in: URL(filePath: caFile))) == nil {
            throw AgentError("caFileUnreadable", "'\(caFile)' cannot be read, or holds no certificate in PEM form", .usage)
        }
        let input = TypedInput(context.console)
        if link == nil, user != nil || relay != nil { return try await change(input, context) }
        let prompt = "Paste the set-up link of the relay's operator; it is not shown. If you know your password, press Return:"
        let text = try await input.secret(link, prompt)
        if text.isEmpty, link == nil { return try await change(input, context) }
        guard let link = SetUpLink(parsing: text) else {
            throw KnownLink(text)?.error
                ?? AgentError(
                    "linkInvalid",
                    "this is not a set-up link; the relay's first start prints one, and the operator makes one with: relayd account set-up",
                    .usage
                )
        }
        return try await setUp(link, input, context)
    }

    /// By a set-up link.
    private func setUp(_ link: SetUpLink, _ input: TypedInput, _ context: AgentContext) async throws -> Result {
        let pinned = try PinnedRelay(parsing: link.relay, allowsPlainHTTP: allowsPlainHTTP)
        let input = advising(input, link.relay, allowsPlainHTTP: allowsPlainHTTP)
        let account = try account(at: pinned, context)
        let set = try await input.attempts {
            let found = try await account.setUp(by: link.token)
            let keeps = try await keepsOthers(found, at: pinned.address.origin, context)
            return try await input.setPassword(by: link.token, account, keepsOthers: keeps).1
        }
        return result(set, at: pinned)
    }

    /// What stays is the person's decision, if there is anything: the account may have been in wrong hands.
    private func keepsOthers(_ found: TerminalAccount.SetUp, at relay: String, _ context: AgentContext) async throws -> Bool {
        guard found.isChoice, !keepsOthers, found.passkeys + found.logins > 0, context.console.canAsk else { return keepsOthers }
        return try await context.console.isConfirmed(
            [
                "\(AccountText.place(found.account, at: relay)) has \(found.passkeys) passkeys, and \(found.logins) signed-in apps and devices.",
                "Answer no if another person may have used the account: then they end.",
            ],
            "Keep them?"
        )
    }

    /// By the present password, or by a recovery code.
    private func change(_ input: TypedInput, _ context: AgentContext) async throws -> Result {
        let known = try context.home.storedRelay()
        guard let text = relay ?? known?.relay else {
            throw AgentError("relayMissing", "which relay? Give a set-up link, or --relay with the relay's address", .usage)
        }
        let allowsPlainHTTP = allowsPlainHTTP || relay == nil && known?.allowsPlainHTTP ?? false
        let pinned = try PinnedRelay(parsing: text, allowsPlainHTTP: allowsPlainHTTP)
        let input = advising(input, text, allowsPlainHTTP: allowsPlainHTTP)
        let account = try account(at: pinned, context)
        let set = try await input.attempts {
            let name = try await input.accountName(user, "Name of your account at \(pinned.address.origin):")
            let present = try await input.hiddenLine("Present password; it is not shown. Without it, press Return to use a recovery code:")
            if present.isEmpty, input.isTerminal {
                return try await input.setPassword(by: try await input.recover(name, account), account).1
            }
            return try await account.changePassword(of: name, from: Secret(present), to: try await input.newPassword())
        }
        return result(set, at: pinned)
    }

    private func advising(_ input: TypedInput, _ address: String, allowsPlainHTTP: Bool) -> TypedInput {
        input.advising(Login.command("--browser", at: address, allowsPlainHTTP: allowsPlainHTTP, caFile: caFile))
    }

    /// A device of the relay knows its key, even if the address does not name it.
    private func account(at pinned: PinnedRelay, _ context: AgentContext) throws -> TerminalAccount {
        let known = try context.home.storedRelay()
        let own = known.flatMap { $0.relay.utf8.elementsEqual(pinned.address.origin.utf8) ? $0 : nil }
        let authorities = caFile.map { TrustRoots.file(URL(filePath: $0)) } ?? own?.authorities ?? .system
        return TerminalAccount(at: pinned.address, relay: pinned.id ?? own?.relayID, authorities: authorities)
    }

    private func result(_ set: TerminalAccount.PasswordSet, at pinned: PinnedRelay) -> Result {
        Result(
            accountName: DisplayText.sanitized(set.account),
            relay: pinned.address.origin,
            recoveryCodes: set.recoveryCodes.map(\.exposed)
        )
    }
}

/// `https://HOST:PORT/auth/setup?token=SECRET`, perhaps with `#relay=ID`.
struct SetUpLink {
    /// The relay's address, perhaps with its id.
    let relay: String
    let token: Secret<String>

    init?(parsing text: String) {
        let text = Array(JoinLink.withoutSurroundings(text).utf8)
        let mark = Array("/auth/setup?token=".utf8)
        guard text.count <= JoinLink.maximumBytes, let start = text.indices.first(where: { text[$0...].starts(with: mark) }) else {
            return nil
        }
        let rest = text[(start + mark.count)...]
        let secret = rest.prefix { $0 != UInt8(ascii: "#") }
        relay = String(decoding: text[..<start] + rest.dropFirst(secret.count), as: UTF8.self)
        token = Secret(String(decoding: secret, as: UTF8.self))
    }
}

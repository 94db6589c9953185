// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Signs in by the name and the password of the relay's own issuer, without a browser. A person who has lost the password can use a recovery
/// code.
package struct PasswordSignIn: Sendable {
    /// The account's name; `nil` asks for it.
    var user: String?

    package init(user: String? = nil) { self.user = user }

    /// - Parameter address: The relay's address as the person has written it; `nil` for that of the membership.
    func provider(_ membership: Membership, as address: String?, _ context: AgentContext) async throws -> any AccessTokenProvider {
        let input = TypedInput(context.console).advising(membership.loginCommand("--browser", as: address))
        let account = try membership.terminalAccount()
        var device = DeviceDescription.thisDevice
        device.name = membership.name
        let allowed = try await input.attempts { [device] in
            let name = try await input.accountName(user, "Name of your account at the relay:")
            let known = try await input.hiddenLine("Password of \(name); it is not shown. Without it, press Return to use a recovery code:")
            let password = known.isEmpty ? try await recoveredPassword(of: name, account, input, context) : Secret(known)
            return try await account.allow(device, clientID: Membership.clientID, name: name, password: password)
        }
        return AllowedDeviceAccessTokenProvider(clientID: Membership.clientID, deviceCode: allowed.deviceCode)
    }

    /// The new password that a recovery code sets.
    private func recoveredPassword(
        of name: String,
        _ account: TerminalAccount,
        _ input: TypedInput,
        _ context: AgentContext
    ) async throws -> Secret<String> {
        // A script that sends no password has not lost one.
        guard input.isTerminal else { throw AgentError("usage", "the password is empty", .usage) }
        let token = try await input.recover(name, account)
        let (password, set) = try await input.setPassword(by: token, account)
        for line in AccountPassword.codeLines(set.recoveryCodes.map(\.exposed)) { context.console.note(line) }
        return password
    }
}

extension TypedInput {
    /// Asks for a recovery code, and uses it up.
    /// - Returns: The secret that sets a password.
    func recover(_ name: String, _ account: TerminalAccount) async throws -> Secret<String> {
        let code = try await hiddenLine("Recovery code; it is not shown:")
        do throws(TerminalAccount.Failure) {
            return try await account.recover(name: name, code: Secret(code))
        } catch {
            guard case .wrong = error else { throw error }
            throw AgentError(
                "recoveryCodeWrong",
                "the name or the recovery code is wrong, or the code was used; without one, the relay's operator makes a set-up link",
                .notSignedIn
            )
        }
    }

    /// Asks for a new password, and sets it by the secret of a set-up link or a recovery.
    func setPassword(
        by token: Secret<String>,
        _ account: TerminalAccount,
        keepsOthers: Bool = false
    ) async throws -> (Secret<String>, TerminalAccount.PasswordSet) {
        try await attempts {
            let password = try await newPassword()
            return (password, try await account.setPassword(password, by: token, keepsOthers: keepsOthers))
        }
    }
}

extension Membership {
    func terminalAccount() throws -> TerminalAccount {
        let pinned = try PinnedRelay(parsing: relay, allowsPlainHTTP: allowsPlainHTTP)
        return TerminalAccount(at: pinned.address, relay: relayID, authorities: authorities)
    }

    /// A command that signs in at this relay, whether or not this device has an account there.
    /// - Parameters:
    ///   - way: The flag that says how.
    ///   - address: The relay's address as the person has written it; `nil` for that of the membership.
    func loginCommand(_ way: String, as address: String?) -> String {
        Login.command(way, at: address ?? relay, allowsPlainHTTP: allowsPlainHTTP, caFile: caFile)
    }
}

extension Login {
    /// A command that signs in at a relay.
    static func command(_ way: String, at address: String, allowsPlainHTTP: Bool, caFile: String?) -> String {
        let options = [way] + (allowsPlainHTTP ? ["--allow-http"] : []) + (caFile.map { ["--ca-file", ShellText.word($0)] } ?? [])
        return ShellText.command("relay login \(options.joined(separator: " "))", address)
    }
}

extension TerminalAccount.Failure {
    /// Whether other input may succeed.
    var canBeCorrected: Bool {
        switch self {
        case .wrong, .refused: true
        case .tooManyAttempts, .linkInvalid, .notOffered, .failed: false
        }
    }
}

extension AgentError {
    /// - Parameter browserLogin: The command with which a person without a password signs in.
    init(_ failure: TerminalAccount.Failure, browserLogin: String) {
        switch failure {
        case .wrong:
            self.init(
                "passwordWrong",
                "the name or the password is wrong. A set-up link from the relay's operator sets a password: relay account password. A person with a passkey and no password signs in with: \(browserLogin)",
                .notSignedIn
            )
        case .tooManyAttempts(let seconds):
            self.init(
                "tooManyAttempts",
                "there were too many attempts; try again in \(seconds.map { $0 == 1 ? "1 second" : "\($0) seconds" } ?? "a quarter of an hour")",
                .declined
            )
        case .linkInvalid:
            self.init(
                "linkInvalid",
                "this link was used, has expired, or was cut off; the relay's operator makes another one with: relayd account set-up",
                .notSignedIn
            )
        case .refused(let why): self.init("passwordRefused", why, .usage)
        case .notOffered:
            self.init(
                "notOffered",
                "this relay takes no passwords at a terminal: it has no accounts of its own, or is older; use --browser or --device",
                .failed
            )
        case .failed(let error): self.init(error)
        }
    }
}

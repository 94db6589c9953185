// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOHTTP1
package import RelayProtocol

/// The account of a person at the relay's own issuer, for what the person types at this device: signing in by name and password, and setting
/// a password. No browser takes part, so the relay may be known by its key alone. Passkeys need a browser.
package struct TerminalAccount: Sendable {
    /// The time limit of a request, in milliseconds. The relay hashes few passwords at a time, so a request may have to wait. If the limit ends
    /// a request, it is unknown whether the password was set.
    private static let patience: Int64 = 60_000

    private let address: RelayAddress
    private let trust: RelayTrust

    /// - Parameter relay: The relay's id, which its key has to prove; `nil` if a trusted certificate proves its name.
    package init(at address: RelayAddress, relay: RelayID?, authorities: TrustRoots = .system) {
        self.address = address
        trust = RelayTrust(relay: relay, authorities: authorities)
    }

    package enum Failure: Error, Sendable {
        /// The name, or the password or recovery code, is wrong. Or the account has no password: the relay does not say which.
        case wrong
        /// - Parameter seconds: When it may be tried again.
        case tooManyAttempts(seconds: Int?)
        /// The set-up link was used or has expired.
        case linkInvalid
        /// The relay does not take the password; the text says why.
        case refused(String)
        /// The relay has no issuer of its own, or an older one.
        case notOffered
        case failed(AccountError)
    }

    /// A device that may sign in.
    package struct AllowedDevice: Decodable, Sendable {
        package var account: String
        package var deviceCode: Secret<String>

        enum CodingKeys: String, CodingKey {
            case account
            case deviceCode = "device_code"
        }
    }

    /// Lets this device sign in, by the password of its user. `AllowedDeviceAccessTokenProvider` redeems the code within ten minutes.
    package func allow(
        _ device: DeviceDescription,
        clientID: String,
        name: String,
        password: Secret<String>
    ) async throws(Failure) -> AllowedDevice {
        try await post(
            "device",
            [
                ("client_id", Secret(clientID)), ("device_name", Secret(device.name)), ("device_platform", Secret("\(device.platform)")),
                ("name", Secret(name)), ("password", password),
            ]
        )
    }

    /// Uses up a recovery code.
    /// - Returns: The secret for `setPassword`, for ten minutes.
    package func recover(name: String, code: Secret<String>) async throws(Failure) -> Secret<String> {
        struct Recovered: Decodable { var token: Secret<String> }
        let recovered: Recovered = try await post("recovery", [("name", Secret(name)), ("code", code)])
        return recovered.token
    }

    /// What a set-up link is for.
    package struct SetUp: Decodable, Sendable {
        package var account: String
        /// Whether the person decides if passkeys and logins end.
        package var isChoice: Bool
        package var passkeys: Int
        /// Apps and devices that are signed in.
        package var logins: Int

        enum CodingKeys: String, CodingKey {
            case account, passkeys, logins
            case isChoice = "is_choice"
        }
    }

    /// - Parameter token: The secret of a set-up link. It is not used up.
    package func setUp(by token: Secret<String>) async throws(Failure) -> SetUp { try await post("setup", [("token", token)]) }

    package struct PasswordSet: Decodable, Sendable {
        package var account: String
        /// New ones, if the account had none.
        package var recoveryCodes: [Secret<String>]

        enum CodingKeys: String, CodingKey {
            case account
            case recoveryCodes = "recovery_codes"
        }
    }

    /// Sets a password by the secret of a set-up link or of a recovery.
    /// - Parameter keepsOthers: Whether passkeys stay, and apps and devices signed in, where that is a choice.
    package func setPassword(_ password: Secret<String>, by token: Secret<String>, keepsOthers: Bool) async throws(Failure) -> PasswordSet {
        let ends = Secret(keepsOthers ? "no" : "yes")
        return try await post(
            "password",
            [("token", token), ("new_password", password), ("end_passkeys", ends), ("end_logins", ends)]
        )
    }

    /// Replaces a password.
    package func changePassword(
        of name: String,
        from password: Secret<String>,
        to new: Secret<String>
    ) async throws(Failure) -> PasswordSet {
        try await post("password", [("name", Secret(name)), ("password", password), ("new_password", new)])
    }

    // MARK: Requests

    private func post<Answer: Decodable>(_ place: String, _ form: [(String, Secret<String>)]) async throws(Failure) -> Answer {
        let headers: HTTPHeaders = [
            "Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded", "User-Agent": "relay",
        ]
        let body = Array(form.map { "\($0)=\(FormCoding.encode($1.exposed))" }.joined(separator: "&").utf8)
        let answer: HTTPAnswer
        do throws(RequestFailure) {
            // The issuer of a relay is at this path of its own address.
            let request = HTTPRequest(.POST, address.basePath + "/auth/terminal/\(place)", headers: headers, body: body)
            answer = try await HTTPRequestClient(timeout: Self.patience).send(request, to: address, trust: trust)
        } catch {
            switch error {
            case .cancelled: throw .failed(AccountError(IssuerClientError.cancelled))
            case .failed(let failure): throw .failed(AccountError(IssuerClientError.unreachable(failure)))
            }
        }
        guard answer.status == 200 else { throw Self.failure(answer) }
        guard let content = try? JSONDecoder().decode(Answer.self, from: Data(answer.body)) else {
            throw .failed(AccountError(IssuerClientError.malformed("a member is missing")))
        }
        return content
    }

    private static func failure(_ answer: HTTPAnswer) -> Failure {
        struct Problem: Decodable {
            var description: String?

            enum CodingKeys: String, CodingKey { case description = "error_description" }
        }
        switch answer.status {
        case 401: return .wrong
        case 403: return .linkInvalid
        case 404: return .notOffered
        case 429, 503: return .tooManyAttempts(seconds: answer.headers.first(name: "Retry-After").flatMap { Int($0) })
        case 400:
            let text = (try? JSONDecoder().decode(Problem.self, from: Data(answer.body)))?.description
            return .refused(DisplayText.sanitized(text ?? "the relay refused the request"))
        default: return .failed(AccountError(IssuerClientError.unavailable(status: answer.status)))
        }
    }
}

/// Signs in with the code of a device that its user has allowed already (RFC 8628). The code works once. Later it returns the stored tokens,
/// and refreshed ones.
package final class AllowedDeviceAccessTokenProvider: LinkAccepting {
    package let clientID: String
    private let code: Secret<String>
    private let logins = StoredLogins(http: HTTPRequestClient())

    package init(clientID: String, deviceCode: Secret<String>) {
        self.clientID = clientID
        code = deviceCode
    }

    package func accessToken(for request: AccessTokenRequest) async throws(AccessTokenError) -> AccessToken {
        try await logins.accessToken(for: request) { [clientID, code] client, _, store in
            try await client.redeem(device: code, at: try await client.discover(.relaysOwn), clientID: clientID, into: store)
        }
    }

    package func accessTokenInvalidated(_ request: AccessTokenRequest) async { await logins.invalidate(request) }
}

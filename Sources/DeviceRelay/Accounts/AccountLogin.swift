// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayStorage

/// How an account is signed in: what the platform stores of the login.
public struct AccountLogin: Hashable, Sendable {
    /// The issuer's URL at the time of the login.
    public let issuer: String
    /// Whether it is the relay's own issuer.
    public let isOfRelay: Bool
    /// The client id that the login belongs to.
    public let clientID: String
    /// The scopes of the latest token.
    public let scopes: Set<AccessTokenScope>
    /// The issuer's id of the login, if its tokens contain one (`sid`).
    public let session: String?
}

extension ConnectedDevicesAccountManager {
    /// The stored login of an account; `nil` if there is none, as with tokens of the app's own provider.
    /// - Throws: `AccountError`: `notFound`, `storageFailed`.
    public func login(of account: ConnectedDevicesAccount) throws(AccountError) -> AccountLogin? {
        guard let endpoint = platform.endpoint(of: account.id) else {
            throw AccountError(.notFound, message: "the platform has no account \(account.id), or was not started")
        }
        let tokens: StoredTokens?
        do throws(StorageError) { tokens = try endpoint.storage.tokens.read() } catch { throw AccountError(error) }
        return tokens.map(AccountLogin.init)
    }
}

extension AccountLogin {
    init(_ tokens: StoredTokens) {
        let claims = try? SignedJSON(parsing: tokens.accessToken.exposed).claims(JSONValue.self)
        self.init(
            issuer: tokens.issuer,
            isOfRelay: !(tokens.isOtherIssuer ?? false),
            clientID: tokens.clientID,
            scopes: Set(tokens.scopes.map(AccessTokenScope.init(rawValue:))),
            session: claims.flatMap { try? $0.optional("sid") }
        )
    }
}

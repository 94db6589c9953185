// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// Checks access tokens.
package protocol TokenVerifying: Sendable {
    /// Calls back once, from any thread.
    /// - Parameters:
    ///   - endpointKey: the key that a bound token must be bound to.
    ///   - address: the network address of the client. Addresses share what the check costs.
    func verify(
        token: String,
        endpointKey: SigningPublicKey,
        address: String,
        completion: @escaping @Sendable (Result<AcceptedToken, TokenRejection>) -> Void
    )
    /// Calls back once, from any thread, when a login is revoked; immediately if it already is.
    func follow(_ login: Login, revoked: @escaping @Sendable () -> Void) -> RevocationObserver
}

/// The content of an accepted token.
package struct AcceptedToken: Hashable, Sendable {
    package var identity: Identity
    /// Whether a new identity creates an account.
    package var mayMakeAccount: Bool
    /// Milliseconds since 1970.
    package var expires: Milliseconds
    /// The scopes of the token.
    package var scopes: Set<RelayScope>
    /// The login that the token comes from, if the token names it.
    package var login: Login?
    /// The token itself, which may be revoked without its login.
    package var single: Login?
    /// All tokens of the key that has signed it, if its issuer removes keys.
    package var signedAlike: Login?
    /// The endpoint whose invitation the login began with, if the token says so.
    package var inviter: EndpointID?
    /// When the token is to be checked again on a live channel: milliseconds since 1970. `nil` if its signature says all.
    package var recheck: Milliseconds?
    /// When the user signed in, as the issuer says.
    package var authenticated: Milliseconds?
    /// Whether it is bound to the endpoint's key.
    package var isBound: Bool
    /// When the token was made; `nil` if its issuer ends the logins of revoked endpoints.
    package var made: Milliseconds?
    /// What the issuer calls the user, the best name first.
    package var names: [String]

    package init(
        identity: Identity,
        mayMakeAccount: Bool,
        expires: Milliseconds,
        scopes: Set<RelayScope>,
        login: Login? = nil,
        inviter: EndpointID? = nil,
        recheck: Milliseconds? = nil,
        single: Login? = nil,
        signedAlike: Login? = nil,
        authenticated: Milliseconds? = nil,
        isBound: Bool = false,
        made: Milliseconds? = nil,
        names: [String] = []
    ) {
        self.identity = identity
        self.mayMakeAccount = mayMakeAccount
        self.expires = expires
        self.scopes = scopes
        self.login = login
        self.inviter = inviter
        self.recheck = recheck
        self.single = single
        self.signedAlike = signedAlike
        self.authenticated = authenticated
        self.isBound = isBound
        self.made = made
        self.names = names
    }
}

extension AcceptedToken {
    /// What ends the channels that depend on the token when it is revoked.
    package var revocable: [Login] { [login, single, signedAlike].compactMap { $0 } }
}

/// Why a token is rejected.
package struct TokenRejection: Error, Hashable, Sendable {
    package var code: ControlErrorCode
    /// For people. It never contains the token.
    package var message: String

    package init(code: ControlErrorCode, message: String) {
        self.code = code
        self.message = message
    }

    static let endpointRevoked = TokenRejection(code: .endpointRevoked, message: "this endpoint was revoked")
}

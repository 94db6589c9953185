// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// One control channel, as the relay's core uses it. Calls come from any thread; messages leave in order.
package protocol ControlPeer: Sendable {
    /// Sends a message, if the channel is still open.
    /// - Parameter whenWritten: Called when the message has left to the network, or cannot leave any more.
    func send(_ message: RelayMessage, whenWritten: (@Sendable () -> Void)?)
    /// Closes the channel after the queued messages (RFC 6455 §7.4 codes).
    func close(code: UInt16, reason: String)
    /// Resumes reading, after `RelayCoreProtocol.receive` had paused it.
    func resume()
}

/// Identifies a control channel while it is open.
package struct ChannelID: Hashable, Sendable {
    package let rawValue: UInt64
    package init(_ rawValue: UInt64) { self.rawValue = rawValue }
}

/// The core's answer to a hello that it accepts.
package struct AcceptedChannel: Hashable, Sendable {
    package var id: ChannelID
    /// The name of the endpoint's account; `nil` if it has none.
    package var accountName: String?
    /// The account's limits; `nil` for the relay's own.
    package var limits: Limits?

    package init(_ id: ChannelID, accountName: String? = nil, limits: Limits? = nil) {
        self.id = id
        self.accountName = accountName
        self.limits = limits
    }
}

/// The verified part of a `hello`: the token is valid, and the endpoint's signature of the hello covers the record. The core then checks
/// the record itself, and decides about the admission.
package struct ProvedHello: Hashable, Sendable {
    package var identity: Identity
    /// Whether a new identity creates an account.
    package var mayMakeAccount: Bool
    package var record: Unverified<EndpointRecord>
    package var role: EndpointMessage.Hello.Role
    /// The process of the endpoint that sent the hello.
    package var instance: Blob<BlobKinds.Instance>
    /// Milliseconds since 1970.
    package var tokenExpires: Milliseconds
    /// The scopes of the token.
    package var scopes: Set<RelayScope>
    /// The login that the token comes from, if the token names it.
    package var login: Login?
    /// The endpoint whose invitation started the login, if the token names it.
    package var inviter: EndpointID?
    /// The network address of the client.
    package var address: String?
    /// When the token was made; `nil` if its issuer ends the logins of revoked endpoints.
    package var tokenMade: Milliseconds?
    /// What the issuer calls the user, the best name first.
    package var names: [String]
    /// Scheme, host and port that the endpoint has dialled.
    package var origin: String
    /// Whether the endpoint follows `moved`.
    package var mayMove: Bool

    package init(
        identity: Identity,
        mayMakeAccount: Bool,
        record: Unverified<EndpointRecord>,
        role: EndpointMessage.Hello.Role,
        instance: Blob<BlobKinds.Instance>,
        tokenExpires: Milliseconds,
        scopes: Set<RelayScope>,
        login: Login? = nil,
        inviter: EndpointID? = nil,
        address: String? = nil,
        tokenMade: Milliseconds? = nil,
        names: [String] = [],
        origin: String = "",
        mayMove: Bool = true
    ) {
        self.identity = identity
        self.mayMakeAccount = mayMakeAccount
        self.record = record
        self.role = role
        self.instance = instance
        self.tokenExpires = tokenExpires
        self.scopes = scopes
        self.login = login
        self.inviter = inviter
        self.address = address
        self.tokenMade = tokenMade
        self.names = names
        self.origin = origin
        self.mayMove = mayMove
    }
}

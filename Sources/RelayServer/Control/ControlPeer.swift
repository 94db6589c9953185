// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// One control channel, as the relay's core sees it. Calls come from any thread; what is sent leaves in order.
package protocol ControlPeer: Sendable {
    /// Sends a message, if the channel is still open.
    func send(_ message: RelayMessage)
    /// Closes the channel after what was sent has left (RFC 6455 §7.4 codes).
    func close(code: UInt16, reason: String)
    /// Reads the channel on, after `RelayCoreProtocol.receive` had it wait.
    func resume()
}

/// Names a control channel for the time it is open.
package struct ChannelID: Hashable, Sendable {
    package let rawValue: UInt64
    package init(_ rawValue: UInt64) { self.rawValue = rawValue }
}

/// What a `hello` has proved: the token is valid, the signature is the endpoint's and over this record. Whether the record is in order, and
/// the account, the directory and the store take the endpoint, is for the core to say.
package struct ProvedHello: Hashable, Sendable {
    package var identity: Identity
    /// Whether an identity seen for the first time makes an account.
    package var mayMakeAccount: Bool
    package var record: Unverified<EndpointRecord>
    package var role: EndpointMessage.Hello.Role
    /// Which of the endpoint's processes says it.
    package var instance: Blob<BlobKinds.Instance>
    /// Milliseconds since 1970.
    package var tokenExpires: Milliseconds
    /// What the token allows.
    package var scopes: Set<RelayScope>
    /// The login that the token comes from, if it says.
    package var login: Login?
    /// The endpoint whose invitation the login began with, if the token says so.
    package var inviter: EndpointID?
    /// The network address that it came from.
    package var address: String?

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
        address: String? = nil
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
    }
}

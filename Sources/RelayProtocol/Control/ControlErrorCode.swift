// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Why the relay refused something. A string on the wire, so that a newer relay may have codes of its own.
package struct ControlErrorCode: RawRepresentable, JSONCodable, Hashable, Sendable, CustomStringConvertible {
    package let rawValue: String

    package init(rawValue: String) { self.rawValue = rawValue }

    package var description: String { rawValue }
}

// Requests.
extension ControlErrorCode {
    /// A request of a type this relay does not know.
    package static let unknownType = Self(rawValue: "unknownType")
    /// A request whose fields are missing or wrong.
    package static let malformed = Self(rawValue: "malformed")
    /// More than a limit allows; the error names it.
    package static let limitExceeded = Self(rawValue: "limitExceeded")
    /// Too often; again after `retryAfter`.
    package static let tooManyRequests = Self(rawValue: "tooManyRequests")
    /// The endpoint, app, command or tunnel that was named does not exist in this account.
    package static let notFound = Self(rawValue: "notFound")
    /// This channel's role does not allow it.
    package static let notAuthorized = Self(rawValue: "notAuthorized")
    /// The token lacks a scope, which the message names.
    package static let insufficientScope = Self(rawValue: "insufficientScope")
    /// Only an established endpoint may do it: the account's first one, or one that an established endpoint has vouched for.
    package static let notEstablished = Self(rawValue: "notEstablished")
    /// This relay does not do it, such as a push channel that it has no credentials for.
    package static let unsupported = Self(rawValue: "unsupported")
    /// The relay cannot do it now; again after `retryAfter`.
    package static let unavailable = Self(rawValue: "unavailable")
    /// A fault of the relay.
    package static let internalError = Self(rawValue: "internalError")
}

// Commands and tunnels.
extension ControlErrorCode {
    /// Another command of this sender already has this id.
    package static let idConflict = Self(rawValue: "idConflict")
    /// The target has no room.
    package static let mailboxFull = Self(rawValue: "mailboxFull")
    /// The command's time of creation is too far from the relay's clock, whose time the error carries.
    package static let clockSkew = Self(rawValue: "clockSkew")
    /// The lane has a command with this number or a higher one; the command ends as refused.
    package static let numberPassed = Self(rawValue: "numberPassed")
    /// The command would live for longer than 28 days.
    package static let livesTooLong = Self(rawValue: "livesTooLong")
    /// The command is larger than the relay takes; the error names the limit.
    package static let commandTooLarge = Self(rawValue: "commandTooLarge")
    /// There is no such endpoint in the account, or not any more.
    package static let targetUnknown = Self(rawValue: "targetUnknown")
    /// The command's time was over when it arrived.
    package static let expired = Self(rawValue: "expired")
    /// A signature does not hold, or the blob is not for this account, relay or sender.
    package static let signatureInvalid = Self(rawValue: "signatureInvalid")
    /// The target sleeps, and no wake may be sent before `retryAfter`.
    package static let wakeSuppressed = Self(rawValue: "wakeSuppressed")
    /// The target is not connected and cannot be woken.
    package static let unreachable = Self(rawValue: "unreachable")
    /// The other side did not want the tunnel.
    package static let declined = Self(rawValue: "declined")
    /// The other side did not come in time.
    package static let timedOut = Self(rawValue: "timedOut")
    /// Whoever opened the tunnel no longer wants it.
    package static let cancelled = Self(rawValue: "cancelled")
}

// Who one is: in `rejected`, `auth.invalidated`, and in answers to `auth.refresh`.
extension ControlErrorCode {
    /// Not a token of any issuer this relay trusts: its form, algorithm, key or signature.
    package static let tokenInvalid = Self(rawValue: "tokenInvalid")
    /// The token's time is over.
    package static let tokenExpired = Self(rawValue: "tokenExpired")
    /// The token's time has not come.
    package static let tokenNotYetValid = Self(rawValue: "tokenNotYetValid")
    /// The issuer, or the account's owner, has revoked the token.
    package static let tokenRevoked = Self(rawValue: "tokenRevoked")
    /// The token is for another audience.
    package static let wrongAudience = Self(rawValue: "wrongAudience")
    /// The token is from an issuer this relay does not trust.
    package static let wrongIssuer = Self(rawValue: "wrongIssuer")
    /// The issuer's settings do not list the client that got the token.
    package static let clientNotAllowed = Self(rawValue: "clientNotAllowed")
    /// The token is bound to another key than this endpoint's.
    package static let tokenBoundToOtherKey = Self(rawValue: "tokenBoundToOtherKey")
    /// The identity has no account here, and its issuer may not make one.
    package static let accountUnknown = Self(rawValue: "accountUnknown")
    /// The relay's operator has disabled the account.
    package static let accountDisabled = Self(rawValue: "accountDisabled")
    /// The token is of another account than the record, or a refreshed one of another than the channel's.
    package static let wrongAccount = Self(rawValue: "wrongAccount")
    /// The relay cannot reach the issuer to check the token.
    package static let issuerUnavailable = Self(rawValue: "issuerUnavailable")
    /// The hello answers another challenge than this channel's.
    package static let wrongChallenge = Self(rawValue: "wrongChallenge")
    /// The hello is for another relay.
    package static let wrongRelay = Self(rawValue: "wrongRelay")
    /// The origin that was dialled is none of this relay's addresses.
    package static let wrongOrigin = Self(rawValue: "wrongOrigin")
    /// The endpoint record cannot be read, or its signatures do not hold.
    package static let recordInvalid = Self(rawValue: "recordInvalid")
    /// The relay has a newer record of this endpoint.
    package static let recordOutdated = Self(rawValue: "recordOutdated")
    /// The endpoint is registered to another account.
    package static let endpointOfOtherAccount = Self(rawValue: "endpointOfOtherAccount")
    /// The endpoint was revoked and never comes back.
    package static let endpointRevoked = Self(rawValue: "endpointRevoked")
    /// This endpoint has as many client channels as it may.
    package static let tooManyClients = Self(rawValue: "tooManyClients")
    /// The two sides share no protocol version.
    package static let versionUnsupported = Self(rawValue: "versionUnsupported")
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Why the relay refuses a request or a channel. It is a string on the wire, so that a newer relay can add codes.
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
    /// A limit would be exceeded; the error names it.
    package static let limitExceeded = Self(rawValue: "limitExceeded")
    /// Requests come too often. Repeat after `retryAfter`.
    package static let tooManyRequests = Self(rawValue: "tooManyRequests")
    /// The named endpoint, app, command or tunnel does not exist in this account.
    package static let notFound = Self(rawValue: "notFound")
    /// This channel's role does not allow it.
    package static let notAuthorized = Self(rawValue: "notAuthorized")
    /// The token lacks a scope, which the message names.
    package static let insufficientScope = Self(rawValue: "insufficientScope")
    /// Only an established endpoint may do it: the account's first endpoint, one on the device of an established endpoint, or one with a `verified` voucher of an established endpoint.
    package static let notEstablished = Self(rawValue: "notEstablished")
    /// This relay does not support it, for example a push channel for which it has no credentials.
    package static let unsupported = Self(rawValue: "unsupported")
    /// The relay cannot do it now. Repeat after `retryAfter`.
    package static let unavailable = Self(rawValue: "unavailable")
    /// An internal error of the relay.
    package static let internalError = Self(rawValue: "internalError")
}

// Commands and tunnels.
extension ControlErrorCode {
    /// Another command of this sender already has this id.
    package static let idConflict = Self(rawValue: "idConflict")
    /// The target's mailbox has no room.
    package static let mailboxFull = Self(rawValue: "mailboxFull")
    /// The command's creation time differs too much from the relay's clock. The error carries the relay's time.
    package static let clockSkew = Self(rawValue: "clockSkew")
    /// The lane has a command with this number or a higher one; the command ends as refused.
    package static let numberPassed = Self(rawValue: "numberPassed")
    /// The command would live longer than 28 days.
    package static let livesTooLong = Self(rawValue: "livesTooLong")
    /// The command is larger than the relay allows; the error names the limit.
    package static let commandTooLarge = Self(rawValue: "commandTooLarge")
    /// The account has no such endpoint, or no longer has it.
    package static let targetUnknown = Self(rawValue: "targetUnknown")
    /// The command had expired when it arrived.
    package static let expired = Self(rawValue: "expired")
    /// A signature is invalid, or the blob is not for this account, relay or sender.
    package static let signatureInvalid = Self(rawValue: "signatureInvalid")
    /// The target sleeps, and no wake is allowed before `retryAfter`.
    package static let wakeSuppressed = Self(rawValue: "wakeSuppressed")
    /// The target is not connected and cannot be woken.
    package static let unreachable = Self(rawValue: "unreachable")
    /// The target declined the tunnel.
    package static let declined = Self(rawValue: "declined")
    /// The other endpoint did not connect in time.
    package static let timedOut = Self(rawValue: "timedOut")
    /// The opener cancelled the tunnel.
    package static let cancelled = Self(rawValue: "cancelled")
}

// Authentication: codes in `rejected`, `auth.invalidated`, and answers to `auth.refresh`.
extension ControlErrorCode {
    /// The form, algorithm, key or signature of the token is not that of an issuer that this relay trusts.
    package static let tokenInvalid = Self(rawValue: "tokenInvalid")
    /// The token has expired.
    package static let tokenExpired = Self(rawValue: "tokenExpired")
    /// The token is not valid yet.
    package static let tokenNotYetValid = Self(rawValue: "tokenNotYetValid")
    /// The login that the token belongs to was revoked.
    package static let tokenRevoked = Self(rawValue: "tokenRevoked")
    /// The token is for another audience.
    package static let wrongAudience = Self(rawValue: "wrongAudience")
    /// The token is from an issuer that this relay does not trust.
    package static let wrongIssuer = Self(rawValue: "wrongIssuer")
    /// The issuer's settings do not list the client that received the token.
    package static let clientNotAllowed = Self(rawValue: "clientNotAllowed")
    /// The token is bound to another key than this endpoint's.
    package static let tokenBoundToOtherKey = Self(rawValue: "tokenBoundToOtherKey")
    /// The relay has no proof that the app belongs to the app identity that its registration names.
    package static let identityNotProven = Self(rawValue: "identityNotProven")
    /// A token that links an identity is bound to no key.
    package static let tokenNotBound = Self(rawValue: "tokenNotBound")
    /// The identity has no account at this relay, and its issuer may not create one.
    package static let accountUnknown = Self(rawValue: "accountUnknown")
    /// The relay's operator has disabled the account.
    package static let accountDisabled = Self(rawValue: "accountDisabled")
    /// The token is for another account than the record, or a refreshed or linked token is for another account than the channel.
    package static let wrongAccount = Self(rawValue: "wrongAccount")
    /// A token that links an identity does not come from a login of the last five minutes.
    package static let loginTooOld = Self(rawValue: "loginTooOld")
    /// The relay cannot reach the issuer to check the token.
    package static let issuerUnavailable = Self(rawValue: "issuerUnavailable")
    /// The hello answers another challenge than this channel's.
    package static let wrongChallenge = Self(rawValue: "wrongChallenge")
    /// The hello is for another relay.
    package static let wrongRelay = Self(rawValue: "wrongRelay")
    /// The dialled origin is not one of this relay's addresses.
    package static let wrongOrigin = Self(rawValue: "wrongOrigin")
    /// The endpoint record is malformed, or its signatures are invalid.
    package static let recordInvalid = Self(rawValue: "recordInvalid")
    /// The relay has a newer record of this endpoint.
    package static let recordOutdated = Self(rawValue: "recordOutdated")
    /// The endpoint is registered to another account.
    package static let endpointOfOtherAccount = Self(rawValue: "endpointOfOtherAccount")
    /// The endpoint was revoked and never comes back.
    package static let endpointRevoked = Self(rawValue: "endpointRevoked")
    /// This endpoint already has the maximum number of client channels.
    package static let tooManyClients = Self(rawValue: "tooManyClients")
    /// Another node of the relay serves the account. `url` says where.
    package static let moved = Self(rawValue: "moved")
    /// Endpoint and relay have no protocol version in common.
    package static let versionUnsupported = Self(rawValue: "versionUnsupported")
}

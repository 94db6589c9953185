// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The words for codes in tables. JSON has the codes.
package enum Words {
    /// How far a launch is, or how it ended.
    package static func launch(_ status: String) -> String {
        switch status {
        case "stored": "not sent yet"
        case "accepted": "waiting"
        case "waking": "being woken"
        case "delivered": "delivered"
        case "succeeded": "launched"
        case "appUnavailable": "app is gone"
        case "protocolUnavailable": "no app for the scheme"
        case "remoteSystemUnavailable": "device is gone"
        case "valueSetTooLarge": "too large"
        case "deniedByRemoteSystem": "declined"
        case "invalidURI": "not a valid URI"
        case "ambiguous": "several apps match"
        case "notConfirmed": "only new devices take it"
        case "expired": "expired"
        case "cancelled": "cancelled"
        case "indeterminate": "not known whether it ran"
        case "pending": "waiting"
        case "notAccepted": "refused by the relay"
        case "submissionKeyReused": "key used for another launch"
        case "relayUnavailable": "relay not reached"
        default: common(status)
        }
    }

    /// The state of an account: connected, or why it is not.
    package static func connection(_ state: String) -> String {
        switch state {
        case "connected": "connected"
        case "paired": "no account, paired devices only"
        case "relayUnreachable": "relay not reached"
        case "relayNotTrusted": "relay not trusted"
        case "notARelay": "not a relay"
        case "authenticationError": "login has ended"
        case "accountUnknown": "account not accepted"
        case "accountNotConfirmed": "account not confirmed"
        case "endpointRevoked": "revoked"
        case "endpointInUse": "hosted by another process"
        case "limitExceeded": "limit reached"
        case "notCompatible": "versions do not match"
        case "relayRestarting": "relay restarts"
        case "connectionLost": "connection lost"
        case "networkChanged": "network changed"
        case "suspended": "not connected"
        case "refused": "refused by the relay"
        default: common(state)
        }
    }

    private static func common(_ code: String) -> String {
        switch code {
        case "notSignedIn": "not signed in"
        case "storageFailed": "storage not usable"
        default: "failed"
        }
    }
}

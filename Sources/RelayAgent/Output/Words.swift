// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The words for codes in tables that the console does not have: see `StateText`. JSON has the codes.
package enum Words {
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
        case "notSignedIn": "not signed in"
        case "storageFailed": "storage not usable"
        default: "failed"
        }
    }
}

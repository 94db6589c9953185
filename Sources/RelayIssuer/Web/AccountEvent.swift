// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// Something that happened to an account, for its owner to read.
package struct AccountEvent: Hashable, Sendable {
    /// How many of the newest are kept for each account. Failed logins count apart, so that they displace nothing.
    static let maximumKept = 256
    static let maximumFailuresKept = 32
    /// Failed logins within this time are one event.
    static let failureSpan: Int64 = 3_600_000

    package enum Kind: String, CaseIterable, Sendable {
        case setUpLinkMade, signedIn, signedOut, signInFailed, passwordSet, recoveryCodesMade, recoveryCodeUsed, passkeyAdded,
            passkeyRemoved
        case appSignedIn, deviceJoined, deviceRevoked, loginRevoked, codeReplayed, tokenReused, linkReused
        case identityLinked, identityRemoved
    }

    package let kind: Kind
    /// The app or browser, as it names itself; of a linked or removed identity, its issuer.
    package let detail: String
    package let time: Milliseconds
    package let count: Int
}

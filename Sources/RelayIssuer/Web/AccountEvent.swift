// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// Something that happened to an account, for its owner to read.
package struct AccountEvent: Hashable, Sendable {
    /// The number of newest events that are kept for each account. Failed sign-ins count separately, so that they displace no other events.
    package static let maximumKept = 256
    package static let maximumFailuresKept = 32
    /// Failed sign-ins within this time, in milliseconds, are one event.
    package static let failureSpan: Int64 = 3_600_000

    package enum Kind: String, CaseIterable, Sendable {
        case setUpLinkMade, signedIn, signedOut, signInFailed, passwordSet, recoveryCodesMade, recoveryCodeUsed, passkeyAdded,
            passkeyRemoved
        case appSignedIn, deviceJoined, deviceRevoked, loginRevoked, codeReplayed, tokenReused, linkReused
        case identityLinked, identityRemoved
    }

    package let kind: Kind
    /// The app or browser, as it names itself, or the issuer of a linked or removed identity.
    package let detail: String
    package let time: Milliseconds
    package var count: Int

    package init(kind: Kind, detail: String, time: Milliseconds, count: Int) {
        self.kind = kind
        self.detail = detail
        self.time = time
        self.count = count
    }
}

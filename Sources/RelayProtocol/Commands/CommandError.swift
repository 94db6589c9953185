// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Why a command, its receipt or its reply is rejected.
package enum CommandError: Error, Hashable, Sendable {
    /// The bytes do not have the format.
    case malformed
    /// This version does not know the suite.
    case unknownSuite(Int)
    /// It is larger than a limit allows.
    case limitExceeded(LimitExceeded)
    /// It is for another account.
    case wrongAccount
    /// It is for another relay.
    case wrongRelay
    /// It is for another endpoint.
    case wrongTarget
    /// It names another sender than expected.
    case wrongSender
    /// The receipt or reply belongs to another command.
    case wrongCommand
    /// The signature is not the expected endpoint's, or the bytes were changed.
    case badSignature
    /// It is sealed for an agreement key that this endpoint never had, or no longer has.
    case unknownKey
    /// Decryption fails: the bytes were changed, or they are sealed for another key.
    case cannotOpen
    /// Decryption succeeds, but the content is malformed.
    case malformedBody
    /// It has expired.
    case expired
    /// It would live longer than 28 days.
    case livesTooLong
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Why a command, its receipt or its reply is refused.
package enum CommandError: Error, Hashable, Sendable {
    /// The bytes are not such a thing.
    case malformed
    /// A suite this version does not know.
    case unknownSuite(Int)
    /// Larger than a limit allows.
    case limitExceeded(LimitExceeded)
    /// For another account.
    case wrongAccount
    /// Sent through another relay.
    case wrongRelay
    /// For another endpoint.
    case wrongTarget
    /// From another endpoint than the one it came for.
    case wrongSender
    /// A receipt or reply for another command.
    case wrongCommand
    /// The endpoint that should have did not sign it, or it was changed.
    case badSignature
    /// Sealed for an agreement key that is no longer, or was never, there.
    case unknownKey
    /// It cannot be opened: changed, or sealed for another key.
    case cannotOpen
    /// The seal is in order, what it held is not.
    case malformedBody
    /// Its time is over.
    case expired
    /// It would live longer than 28 days.
    case livesTooLong
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The result of the owner's check of a command that the relay offered.
package enum CommandCheck: Hashable, Sendable {
    /// The signature is the sender's, and the command may run.
    case valid
    /// The signature is the sender's, but the command will not run: a policy, an unreadable body.
    case refused(CommandOutcome)
    /// The signature is the sender's, but the target has no such app.
    case appUnknown
    /// The signature is not the sender's and can never become valid, or the sender was revoked.
    case forged(reason: String)
    /// No known record contains the sender's key. With such a record the same bytes might be valid, so the target does not answer.
    case unverifiable
}

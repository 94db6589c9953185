// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The interface by which sent and received commands go over direct sessions. A message without a session is dropped: the next session
/// repeats it.
protocol DirectSending: AnyObject {
    // At the sender.

    /// A command is stored.
    func submitted(to target: EndpointID)
    /// The relay has a command, and its target does not have it yet.
    func accepted(_ id: CommandID, to target: EndpointID)
    /// The storage has failed: what was decided is lost, and the sessions begin anew.
    func reset()
    /// Offers a command to its target. The answer is an input of the outbox.
    func offer(_ command: SentCommand, _ blob: [UInt8])
    /// Tells a target that the outcome of a command is stored.
    func settle(_ id: CommandID, at target: EndpointID)

    /// Tells a target that its result was not taken.
    func refuse(_ id: CommandID, at target: EndpointID)

    // At the target.

    /// Answers an offer: the command is stored.
    func received(_ key: CommandKey)
    /// Answers an offer: the command cannot be taken now.
    func postpone(_ key: CommandKey)
    /// Sends a result, as the answer to an offer if one waits.
    func send(_ result: JournalTransaction.Result, for key: CommandKey)
}

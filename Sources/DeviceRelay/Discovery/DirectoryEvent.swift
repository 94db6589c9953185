// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What a source of discovery states about the account's endpoints. `PeerBook` checks it.
enum DirectoryEvent: Sendable {
    // The relay lists who belongs to the account.
    case added(RelayMessage.EndpointAdded)
    case updated(RelayMessage.EndpointUpdated)
    case removed(RelayMessage.EndpointRemoved)
    case enumerated
    case relayLost(at: Milliseconds)
    /// The relay is slow, and the stored endpoints are needed now.
    case relaySilent(since: Milliseconds)
    /// A path other than the relay's shows whether a confirmed endpoint can be reached there; `nil` if it shows nothing any more.
    case presence(EndpointID, Presence?, on: PathPresences.Path)

    /// - Returns: `nil` if the message is not about the directory.
    init?(_ message: RelayMessage) {
        switch message {
        case .endpointAdded(let message): self = .added(message)
        case .endpointUpdated(let message): self = .updated(message)
        case .endpointRemoved(let message): self = .removed(message)
        case .enumerationCompleted: self = .enumerated
        default: return nil
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Commands of one lane are handled in the order of their numbers, one at a time; lanes run side by side.
package struct CommandLane: Hashable, Sendable {
    package let sender: EndpointID
    package let target: EndpointID
    /// The app at the target.
    package let appID: String

    package init(sender: EndpointID, target: EndpointID, appID: String) {
        self.sender = sender
        self.target = target
        self.appID = appID
    }
}

/// Names a command among all of an account: an id is unique for its sender only.
package struct CommandKey: Hashable, Sendable {
    package let sender: EndpointID
    package let id: CommandID

    package init(sender: EndpointID, id: CommandID) {
        self.sender = sender
        self.id = id
    }
}

/// What the state machines know of a command: the routing fields of its header, and its blob's digest and size. The
/// blob itself stays in the store.
package struct CommandDescriptor: Hashable, Sendable {
    package let id: CommandID
    package let lane: CommandLane
    /// Grows strictly within the lane.
    package let number: UInt64
    /// Milliseconds since 1970, as are all times here; in relay time.
    package let created: Int64
    /// In relay time.
    package let expires: Int64
    package let digest: Digest256
    /// Of the blob, in bytes.
    package let size: Int

    package init(id: CommandID, lane: CommandLane, number: UInt64, created: Int64, expires: Int64, digest: Digest256, size: Int) {
        self.id = id
        self.lane = lane
        self.number = number
        self.created = created
        self.expires = expires
        self.digest = digest
        self.size = size
    }

    package var key: CommandKey { CommandKey(sender: lane.sender, id: id) }
}

/// The periods of the command protocol, in milliseconds.
package enum CommandPeriod {
    /// How far a creation time may be off.
    package static let creationTolerance: Int64 = 5 * 60_000
    /// The longest time to live.
    package static let maximumLife: Int64 = 28 * 86_400_000
    /// How long after expiry a target's own clock may still allow handling, and the relay waits for the target's word.
    package static let grace: Int64 = 24 * 3_600_000
    /// How long a final outcome waits for its sender.
    package static let retention: Int64 = 7 * 86_400_000
    /// The time a handler has.
    package static let handling: Int64 = 30_000
    /// The time it has from its start once it has asked for more.
    package static let extendedHandling: Int64 = 5 * 60_000
}

extension Int64 {
    /// Times come from peers: a sum of them must not trap.
    func saturatingAdding(_ other: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? (other < 0 ? .min : .max) : sum
    }
}

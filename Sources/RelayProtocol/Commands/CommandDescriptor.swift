// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The commands of one sender to one app of one target. They are handled in the order of their numbers, one at a time. Lanes are
/// independent of each other.
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

/// Identifies a command within an account. An id alone is unique only for its sender.
package struct CommandKey: Hashable, Sendable {
    package let sender: EndpointID
    package let id: CommandID

    package init(sender: EndpointID, id: CommandID) {
        self.sender = sender
        self.id = id
    }
}

/// The data of a command that the state machines use: the routing fields of its header, and the digest and size of its blob. The store
/// keeps the blob itself.
package struct CommandDescriptor: Hashable, Sendable {
    package let id: CommandID
    package let lane: CommandLane
    /// Grows strictly within the lane.
    package let number: UInt64
    /// In relay time, in milliseconds since 1970, as all times here.
    package let created: Int64
    /// In relay time.
    package let expires: Int64
    package let digest: Digest256
    /// The size of the blob, in bytes.
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
    /// How much a creation time may differ from the relay's clock.
    package static let creationTolerance: Int64 = 5 * 60_000
    /// The longest time to live of a command.
    package static let maximumLife: Int64 = 28 * 86_400_000
    /// How long after a command's expiry the target's own clock still permits handling. The relay waits that long for the target's result.
    package static let grace: Int64 = 24 * 3_600_000
    /// How long the relay keeps a final outcome that the sender has not acknowledged.
    package static let retention: Int64 = 7 * 86_400_000
    /// How long a handler may take.
    package static let handling: Int64 = 30_000
    /// How long a handler that asked for more time may take, counted from its start.
    package static let extendedHandling: Int64 = 5 * 60_000
}

extension Int64 {
    /// The sum, or the nearest value on overflow. Times come from peers, so a sum must not trap.
    func saturatingAdding(_ other: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? (other < 0 ? .min : .max) : sum
    }
}

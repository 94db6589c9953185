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
package struct CommandKey: Codable, Hashable, Sendable {
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
    /// The lowest number with which the command was signed before, if it got a higher one since. `nil` also in a stored row.
    package let firstNumber: UInt64?
    /// In relay time, in milliseconds since 1970, as all times here.
    package let created: Int64
    /// In relay time.
    package let expires: Int64
    package let digest: Digest256
    /// The size of the blob, in bytes.
    package let size: Int

    package init(
        id: CommandID,
        lane: CommandLane,
        number: UInt64,
        firstNumber: UInt64? = nil,
        created: Int64,
        expires: Int64,
        digest: Digest256,
        size: Int
    ) {
        self.id = id
        self.lane = lane
        self.number = number
        self.firstNumber = firstNumber
        self.created = created
        self.expires = expires
        self.digest = digest
        self.size = size
    }

    package var key: CommandKey { CommandKey(sender: lane.sender, id: id) }

    /// Whether the sender has signed `other` again as this command, with a higher number.
    package func replaces(_ other: CommandDescriptor) -> Bool {
        key == other.key && lane == other.lane && firstNumber.map { $0 <= other.number } ?? false && other.number < number
    }
}

/// The numbers of a lane, at their sender.
package enum CommandNumber {
    /// The highest number.
    package static let maximum = WireNumber.range.upperBound
    /// A higher number than this is not taken over from other parties, so that none can use up the numbers of a lane.
    package static let maximumFromOthers: UInt64 = 1 << 52

    /// The lowest number that a new command may have: the time, in milliseconds. So a sender whose stored state goes back does not use a
    /// number twice. A relay whose clock is wrong gains at most a day.
    /// - Parameters:
    ///   - relayTime: The relay's clock, as the sender knows it.
    ///   - ownTime: The sender's own clock.
    package static func lowest(relayTime: Int64, ownTime: Int64) -> UInt64 {
        let time = min(relayTime, ownTime.saturatingAdding(86_400_000))
        return min(UInt64(max(time, 1)), maximumFromOthers)
    }
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
    package func saturatingAdding(_ other: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? (other < 0 ? .min : .max) : sum
    }
}

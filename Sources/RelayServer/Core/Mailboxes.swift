// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What is on its way to the open channels of an account: the commands for hosts, and the outcomes for senders. Without I/O and clock.
struct Mailboxes: Sendable {
    private struct Box: Sendable {
        /// Set for a host whose mailbox has been read, until it leaves.
        var delivery: CommandDelivery?
        /// The outcomes from before the channel opened that are still to be sent.
        var outcomes: ArraySlice<CommandKey> = []
        /// The requests to be answered once the mailbox is drained.
        var drains: [RequestRef] = []
    }

    private static let drainsAtOnce = 4

    private var boxes: [ChannelID: Box] = [:]
    /// The number of commands per target that are being stored and will be offered after that. New commands must not overtake them.
    private var storing: [EndpointID: Int] = [:]

    /// Whether commands are being stored that will be offered after that.
    var isStoring: Bool { !storing.isEmpty }

    mutating func opened(_ channel: ChannelID) { boxes[channel] = Box() }

    mutating func closed(_ channel: ChannelID) { boxes[channel] = nil }

    /// The outcomes for a channel were read, and the mailbox of a host.
    mutating func read(_ outcomes: [CommandKey], _ mailbox: [CommandDescriptor]?, for channel: ChannelID) {
        change(channel) { box in
            box.outcomes = outcomes[...]
            if let mailbox { box.delivery = CommandDelivery(mailbox: mailbox) }
        }
    }

    /// Nothing more is offered on the channel.
    mutating func left(_ channel: ChannelID) { change(channel) { $0.delivery = nil } }

    // MARK: Commands

    /// A command is about to be stored. It must not overtake earlier ones that are stored first and offered after that.
    /// - Parameter host: the host channel of its target.
    /// - Returns: the channel, if the command can be offered to it in the transaction that stores the command.
    mutating func begin(_ command: CommandDescriptor, for host: ChannelID?) -> ChannelID? {
        let target = command.lane.target
        if storing[target] == nil, let host, change(host, { $0.delivery?.begin(command) }) == true { return host }
        storing[target, default: 0] += 1
        return nil
    }

    /// A command is stored that could not be offered in its transaction, or its transaction has failed.
    mutating func endStoring(for target: EndpointID) {
        guard let count = storing[target] else { return }
        storing[target] = count > 1 ? count - 1 : nil
    }

    /// A command waits for its offer on a host channel.
    mutating func add(_ command: CommandDescriptor, to host: ChannelID) { change(host) { $0.delivery?.add(command) } }

    /// Marks a command as answered on the channel of its target: it takes no more room in the window.
    mutating func answered(_ command: CommandDescriptor, on host: ChannelID) { change(host) { $0.delivery?.answered(command) } }

    /// The next command to offer, if the window has room.
    mutating func nextOffer(on channel: ChannelID) -> CommandKey? { change(channel) { $0.delivery?.next() } ?? nil }

    /// - Returns: whether the request is remembered; a channel may have a few.
    mutating func drain(_ ref: RequestRef, on channel: ChannelID) -> Bool {
        change(channel) { box in
            guard box.drains.count < Self.drainsAtOnce else { return false }
            box.drains.append(ref)
            return true
        } ?? false
    }

    /// The requests to answer, if the endpoint has stored every command in its mailbox or the command has ended.
    mutating func takeDrained(by endpoint: EndpointID, on channel: ChannelID) -> [RequestRef] {
        change(channel) { [storing] box in
            // Before the mailbox is read there is no delivery.
            guard !box.drains.isEmpty, box.delivery?.isEmpty == true, storing[endpoint] == nil else { return [] }
            defer { box.drains = [] }
            return box.drains
        } ?? []
    }

    // MARK: Outcomes

    /// How many outcomes are on their way to a channel. A sender may have a full mailbox of them, and may read slowly.
    static func outcomesAtOnce(_ limits: Limits) -> Int { max(1, min(16, (4 << 20) / limits[.replyBytes])) }

    mutating func nextOutcome(for channel: ChannelID) -> CommandKey? { change(channel) { $0.outcomes.popFirst() } ?? nil }

    /// Changes the box of an open channel in place.
    @discardableResult
    private mutating func change<Result>(_ channel: ChannelID, _ body: (inout Box) -> Result) -> Result? {
        guard let index = boxes.index(forKey: channel) else { return nil }
        return body(&boxes.values[index])
    }
}

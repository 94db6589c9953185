// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The open channels of an account, and which of them watch it. Without I/O and clock.
struct ChannelTable: Sendable {
    /// How far a channel has come with its request `leaving`.
    enum Leaving: Hashable, Sendable {
        case no
        /// It is being stored.
        case requested
        /// The channel gets no more commands.
        case stored
    }

    private struct Open: Sendable {
        let channel: AccountChannel
        let since: Milliseconds
        var leaving = Leaving.no
    }

    private var open: [ChannelID: Open] = [:]
    /// Oldest first; no value is empty.
    private var ofEndpoint: [EndpointID: [AccountChannel]] = [:]
    /// The channels that receive discovery events, in the order of their ids.
    private(set) var watchers: [ChannelID] = []

    var isEmpty: Bool { open.isEmpty }
    var endpoints: Dictionary<EndpointID, [AccountChannel]>.Keys { ofEndpoint.keys }
    /// All channels, in the order of their ids.
    var all: [AccountChannel] { open.values.map(\.channel).sorted { $0.id < $1.id } }

    subscript(_ id: ChannelID) -> AccountChannel? { open[id]?.channel }

    func contains(_ id: ChannelID) -> Bool { open.index(forKey: id) != nil }

    /// All channels of an endpoint, oldest first.
    func channels(of endpoint: EndpointID) -> [AccountChannel] { ofEndpoint[endpoint] ?? [] }

    /// The channel that receives an endpoint's commands.
    func host(of endpoint: EndpointID) -> AccountChannel? {
        ofEndpoint[endpoint]?.first { $0.role == .host && leaving($0.id) != .stored }
    }

    /// Since when an endpoint has had its host channel.
    func hostSince(of endpoint: EndpointID) -> Milliseconds? { host(of: endpoint).flatMap { open[$0.id]?.since } }

    mutating func add(_ channel: AccountChannel, at now: Milliseconds) {
        open[channel.id] = Open(channel: channel, since: now)
        ofEndpoint[channel.endpoint, default: []].append(channel)
    }

    mutating func remove(_ channel: AccountChannel) {
        open[channel.id] = nil
        unwatch(channel.id)
        ofEndpoint[channel.endpoint]?.removeAll { $0.id == channel.id }
        if ofEndpoint[channel.endpoint]?.isEmpty ?? false { ofEndpoint[channel.endpoint] = nil }
    }

    mutating func watch(_ id: ChannelID) {
        guard contains(id), !watchers.contains(id) else { return }
        watchers.insert(id, at: watchers.firstIndex { id < $0 } ?? watchers.endIndex)
    }

    mutating func unwatch(_ id: ChannelID) { watchers.removeAll { $0 == id } }

    func leaving(_ id: ChannelID) -> Leaving? { open[id]?.leaving }

    /// - Returns: how far it had come before; `nil` if the channel is closed.
    mutating func requestLeaving(_ id: ChannelID) -> Leaving? {
        let before = leaving(id)
        if before == .no { open[id]?.leaving = .requested }
        return before
    }

    /// The leaving of a channel is stored.
    /// - Returns: whether the channel is open.
    mutating func left(_ id: ChannelID) -> Bool {
        open[id]?.leaving = .stored
        return contains(id)
    }
}

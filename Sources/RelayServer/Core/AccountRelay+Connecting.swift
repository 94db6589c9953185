// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayLog
import RelayProtocol

/// The admission of endpoints.
extension AccountRelay {
    /// Handles the hello of an endpoint that has proved its identity: accepts, rejects, verifies or redirects it.
    /// - Parameters:
    ///   - id: the id of the channel if the relay accepts it.
    ///   - isVerified: whether the record's signatures were checked. A record that equals the stored one byte for byte was verified before
    ///     it was stored, and is not verified again: after a restart of the relay all endpoints reconnect at once with unchanged records.
    mutating func connect(_ hello: ProvedHello, as id: ChannelID, isVerified: Bool) {
        transact(.admit(hello, as: id, isVerified: isVerified, at: now.count))
    }

    mutating func decided(on hello: ProvedHello, as id: ChannelID, _ result: Result<HelloAdmission, any Error>) {
        switch result {
        case .success(.unverified): perform(.verify(hello, id))
        case .success(.elsewhere(let account)): perform(.redirect(hello, id, to: account))
        case .success(.rejected(let rejected, let events)):
            for event in events { perform(.event(event)) }
            perform(.reject(id, rejected))
        case .success(.admitted) where isStopping: perform(.reject(id, .unavailable))
        case .success(
            .admitted(let row, let joining, let introduction, let registrations, let push, let accountName, let limits, let events)
        ):
            for event in events { perform(.event(event)) }
            open(
                AccountChannel(id, hello, in: self.id, registrations: registrations),
                row,
                push,
                joining,
                introduction,
                accountName,
                limits
            )
        // Its node is looked for again.
        case .failure(StoreError.leaseLost): perform(.redirect(hello, id, to: self.id))
        case .failure: perform(.reject(id, .unavailable))
        }
    }

    /// Opens a channel of an endpoint whose row is stored.
    /// - Parameters:
    ///   - push: the push registration of a host.
    ///   - joining: set if the endpoint is new.
    ///   - introduction: set if the endpoint is new or has changed.
    ///   - accountName: the name of the account, if it has one.
    ///   - limits: those of the account.
    private mutating func open(
        _ channel: AccountChannel,
        _ row: EndpointRow,
        _ push: PushRow?,
        _ joining: Joining?,
        _ introduction: Introduction?,
        _ accountName: String?,
        _ limits: Limits
    ) {
        let siblings = channels.channels(of: channel.endpoint).filter { $0.role == channel.role }
        let (forerunners, others) = (
            siblings.filter { $0.instance == channel.instance }, siblings.filter { $0.instance != channel.instance }
        )
        if channel.role == .client, others.count >= Self.clientsPerEndpoint {
            tellOpened(channel, row, push, joining, introduction)
            let message = "this endpoint has \(Self.clientsPerEndpoint) client channels"
            return perform(.reject(channel.id, .init(code: .tooManyClients, message: message, retry: true)))
        }
        // First, because the older channel may be the account's last one.
        add(channel)
        // The transport sends `welcome` now, before any other message on the channel.
        perform(.accept(channel, accountName: accountName, limits))
        // The same process has abandoned its older channel; messages still in transit on it are outdated.
        for forerunner in forerunners { close(forerunner, saying: nil, code: 1000, reason: "the same process connected again") }
        if channel.role == .host {
            // A process that has said that it leaves is not pushed out.
            let active = others.filter { channels.leaving($0.id) != .stored }
            for older in others { close(older, saying: .replaced(.init()), code: 1000, reason: "replaced by a newer channel") }
            presences.connected(channel.endpoint, channel.instance, insteadOf: active.map(\.instance), at: now)
            if let push {
                if push.channel.kind != .polling { perform(.endWakes(channel.endpoint)) }
                tellRegistration(push)
            }
        }
        tellOpened(channel, row, push, joining, introduction)
        transact(.readBoxes(channel))
        if channel.role == .host { offerTunnels(to: channel) }
    }

    /// Tells the watchers what a hello has changed.
    private mutating func tellOpened(
        _ channel: AccountChannel,
        _ row: EndpointRow,
        _ push: PushRow?,
        _ joining: Joining?,
        _ introduction: Introduction?
    ) {
        if let joining, let introduction {
            let added = RelayMessage.EndpointAdded(
                endpoint: row.id,
                introduction: introduction,
                registrations: [],
                presence: takePresence(of: row, push).presence,
                joining: joining
            )
            return tellWatchers(.endpointAdded(added))
        }
        // A client channel changes no presence.
        let told = channel.role == .host ? takePresence(of: row, push) : nil
        let presence = told.flatMap { $0.isNew ? $0.presence : nil }
        guard introduction != nil || presence != nil else { return }
        tellWatchers(.endpointUpdated(.init(endpoint: row.id, introduction: introduction, presence: presence)))
    }

    /// The channel was closed or timed out.
    mutating func disconnected(_ id: ChannelID) {
        guard let channel = channels[id] else { return }
        // Submitted before the account's presences are dropped, so that the next read of the store finds it.
        if channel.role == .host, channels.leaving(id) != .stored { storeLoss(of: channel.endpoint) }
        remove(channel)
        refreshPresences(of: [channel.endpoint])
    }

    /// If the write fails, the endpoint is still `lost` after the next start, without a time. The core looks for waiting commands when the
    /// store works again.
    mutating func storeLoss(of endpoint: EndpointID) {
        presences.lost(endpoint, at: now.count)
        if !isStopping { transact(.storeLoss(of: endpoint, at: now.count)) }
    }
}

extension RelayMessage.Rejected {
    static let unavailable = unavailable(retryAfter: 2_000)

    static func unavailable(retryAfter time: Milliseconds) -> Self {
        .init(code: .unavailable, message: "the relay accepts no endpoints now", retry: true, retryAfter: time)
    }

    /// - Parameter url: Of the node that serves the account.
    static func moved(to url: Origin?) -> Self {
        guard let url else { return .unavailable }
        return .init(code: .moved, message: "another node of the relay serves this account", retry: true, url: "\(url)")
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Push registrations of endpoints.
extension AccountRelay {
    mutating func register(_ request: EndpointMessage.NotificationsRegister, on channel: AccountChannel) {
        if let rejection = rejection(of: request) { return fail(request.ref, rejection, on: channel.id) }
        transact(.register(request, channel))
    }

    mutating func registered(_ push: PushRow, on channel: AccountChannel) {
        let state = push.state(at: now.count, rules)
        if channels.contains(channel.id) { _ = hosts.tell(state, isWakeable: push.isWakeable(at: now.count, rules), to: channel.id) }
        send(.notificationsState(.init(appID: push.appID, state: state)), to: channel.id)
        // While it is connected, its presence does not depend on the registration.
        if channels.host(of: channel.endpoint) == nil { refreshPresences(of: [channel.endpoint]) }
    }

    private func rejection(of request: EndpointMessage.NotificationsRegister) -> Rejection? {
        guard let kind = request.channel.kind else {
            return Rejection(.unsupported, "this relay does not know this type of push channel; register as polling")
        }
        if kind == .polling || rules.wakeable.hasCredential(kind, request.appID) { return nil }
        return Rejection(.unsupported, "this relay has no credentials to wake this app through \(kind.rawValue); register as polling")
    }
}

extension AccountTransaction {
    func register(_ request: EndpointMessage.NotificationsRegister, on channel: AccountChannel, at now: Int64) throws -> PushRow {
        let (endpoint, account) = (channel.endpoint, channel.account)
        _ = try member(endpoint, of: account)
        var push = PushRow(
            endpoint: endpoint,
            account: account,
            appID: request.appID,
            displayName: request.displayName,
            channel: request.channel,
            registered: now
        )
        push.showsNames = request.pushNames
        if let before = try self.push(of: endpoint) {
            // After a restart of the relay all endpoints register again. What has just been stored costs no write.
            if before.isSame(as: push), now < before.registered + PushRow.registrationPause { return before }
            if before.channel.kind == request.channel.kind { push.response = before.response }
        }
        try put(push)
        return push
    }
}

extension PushRow {
    /// A registration that is repeated earlier than this changes nothing.
    fileprivate static let registrationPause: Int64 = 86_400_000

    fileprivate func isSame(as other: PushRow) -> Bool {
        !isGone && appID == other.appID && displayName == other.displayName && channel == other.channel
            && showsNames == other.showsNames
    }
}

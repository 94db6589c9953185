// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Push registrations of endpoints.
extension AccountRelay {
    mutating func register(_ request: EndpointMessage.NotificationsRegister, on channel: AccountChannel) {
        if let rejection = rejection(of: request) { return fail(request.ref, rejection, on: channel.id) }
        serve(request.ref, on: channel) { store, now in
            _ = try store.member(channel.endpoint, of: channel.account)
            var push = PushRow(
                endpoint: channel.endpoint,
                account: channel.account,
                appID: request.appID,
                displayName: request.displayName,
                channel: request.channel,
                registered: now
            )
            push.showsNames = request.pushNames
            guard let before = try store.push(of: channel.endpoint) else {
                try store.put(push)
                return push
            }
            // After a restart of the relay all endpoints register again. What has just been stored costs no write.
            if before.isSame(as: push), now < before.registered + Self.registrationPause { return before }
            if before.channel.kind == request.channel.kind { push.response = before.response }
            try store.put(push)
            return push
        } then: { relay, push in
            let (now, rules) = (relay.now.count, relay.rules)
            relay.change(channel.id) { open in
                open.isWakeable = push.isWakeable(at: now, rules)
                open.toldRegistration = push.state(at: now, rules)
            }
            relay.send(.notificationsState(.init(appID: push.appID, state: push.state(at: now, rules))), to: channel.id)
            // While it is connected, its presence does not depend on the registration.
            if relay.host(of: channel.endpoint) == nil { relay.refreshPresences(of: [channel.endpoint]) }
        }
    }

    /// A registration that is repeated earlier than this changes nothing.
    private static let registrationPause: Int64 = 86_400_000

    private func rejection(of request: EndpointMessage.NotificationsRegister) -> Rejection? {
        guard let kind = request.channel.kind else {
            return Rejection(.unsupported, "this relay does not know this type of push channel; register as polling")
        }
        if kind == .polling || rules.wakeable.hasCredential(kind, request.appID) { return nil }
        return Rejection(.unsupported, "this relay has no credentials to wake this app through \(kind.rawValue); register as polling")
    }
}

extension PushRow {
    fileprivate func isSame(as other: PushRow) -> Bool {
        !isGone && appID == other.appID && displayName == other.displayName && channel == other.channel
            && showsNames == other.showsNames
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

extension WakeQueue {
    struct Limits: Hashable, Sendable {
        /// The maximum number of wakes in flight to one service: a provider, or with Web Push one origin.
        var perService = 32
        /// The maximum number of wakes in flight with one credential.
        var perCredential = 64
        /// The maximum number of wakes of one account in flight with one credential. With Web Push, users choose the services, and a
        /// service that never answers holds its wakes until the timeout.
        var perAccount = 8
        /// The maximum number of outstanding wakes with one credential. Further wakes are not sent.
        var outstanding = 10_000
        /// The maximum number of outstanding wakes of one account with one credential.
        var outstandingPerAccount = 1_000
        /// The wakes of one endpoint, and of one registration.
        var rate = EventRate(10, per: 600_000)
    }

    struct Key: Hashable {
        let endpoint: EndpointID
        let credential: PushCredentialID
        let urgency: WakePayload.Urgency

        var target: Target { Target(endpoint: endpoint, credential: credential) }
    }

    /// Identifies a registration.
    struct Target: Hashable {
        let endpoint: EndpointID
        let credential: PushCredentialID
    }

    /// One entry of a wake in a queue or with a timer. Only the wake's newest ticket is valid; older ones are void.
    struct Ticket: Hashable {
        let key: Key
        let number: Int
    }

    /// The unit to which a pause applies. Each credential has services of its own, because a provider limits each sender separately.
    struct Service: Hashable {
        let credential: PushCredentialID
        /// The origin of the push service with Web Push, where users choose it, or one of Apple's two environments; otherwise `nil`.
        let origin: String?

    }

    /// An address that a device chose. A failure there pauses the address for its account only.
    struct Address: Hashable {
        let holder: WakeShares.Holder
        let origin: String
    }

    /// The service and address that a wake is sent to.
    struct Route: Hashable {
        let service: Service
        /// `nil` if devices do not choose the address.
        let address: Address?

        init(of order: WakeOrder) {
            func origin(_ url: Secret<String>) -> String { DialTarget(url.exposed)?.origin ?? "" }
            let chosen: String?
            switch order.registration {
            case .webPush(let endpoint, _, _):
                chosen = origin(endpoint)
                service = Service(credential: order.credential, origin: chosen)
            case .wns(let channelURI):
                chosen = origin(channelURI)
                service = Service(credential: order.credential, origin: nil)
            case .apns(_, let environment):
                chosen = nil
                service = Service(credential: order.credential, origin: environment.rawValue)
            case .fcm, .polling, .unknown:
                chosen = nil
                service = Service(credential: order.credential, origin: nil)
            }
            let holder = WakeShares.Holder(credential: order.credential, account: order.account)
            address = chosen.map { Address(holder: holder, origin: $0) }
        }
    }

    /// One attempt to send a wake.
    struct Attempt {
        let key: Key
        let order: WakeOrder
        let route: Route
        let holder: WakeShares.Holder
        /// The periods of the service and the address at the start of the attempt.
        let period: Int
        let addressPeriod: Int
        /// The number of replacements of the credential at the start of the attempt.
        let replacements: Int
    }

    struct Entry {
        var order: WakeOrder
        var deadline: Milliseconds
        var retry = PushRetry()
        var route: Route
        var isInFlight = false
        /// Why the newest order needs no push any more; `nil` if it does.
        var unneeded: WakeReport.NotSent?
        /// Whether orders were dropped after the push was sent, and the newest order came after that. The push then does not cover the order.
        var isFollowed = false
        var ticket = 0
        /// The credential and account whose shares the wake uses, from its first order to its end.
        let holder: WakeShares.Holder

        init(_ order: WakeOrder, deadline: Milliseconds) {
            self.order = order
            self.deadline = deadline
            self.route = Route(of: order)
            self.holder = WakeShares.Holder(credential: order.credential, account: order.account)
        }
    }

    struct Pause {
        let end: Milliseconds
        /// The paused registration. Another registration of the same app is not paused.
        let registration: PushRegistration
    }

    enum Event {
        case ready(Ticket)
        case service(Service)
        case address(Address)
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

extension WakeQueue {
    struct Limits: Hashable, Sendable {
        /// Wakes on their way to one service: a provider, and with Web Push each origin.
        var perService = 32
        /// Wakes on their way with the same credential.
        var perCredential = 64
        /// Wakes of one account on their way with the same credential. With Web Push, users choose the services, and one that never answers holds its
        /// wakes until the timeout.
        var perAccount = 8
        /// Outstanding wakes with the same credential. More are not sent.
        var outstanding = 10_000
        /// Outstanding wakes of one account with the same credential.
        var outstandingPerAccount = 1_000
        /// Wakes of one endpoint, and to one registration, in a row.
        var burst = 10
        /// After the burst there is one wake in this time, in milliseconds.
        var interval: Int64 = 60_000
    }

    struct Key: Hashable {
        let endpoint: EndpointID
        let credential: PushCredentialID
        let urgency: WakePayload.Urgency

        var target: Target { Target(endpoint: endpoint, credential: credential) }
    }

    /// A registration.
    struct Target: Hashable {
        let endpoint: EndpointID
        let credential: PushCredentialID
    }

    /// One stay of a wake in a line or with a timer. An older one is void.
    struct Ticket: Hashable {
        let key: Key
        let number: Int
    }

    /// The unit of a pause. Each credential has its own, because a provider limits each sender separately.
    struct Service: Hashable {
        let credential: PushCredentialID
        /// With Web Push, users choose the services; Apple has two.
        let origin: String?

    }

    /// An address that a device chose. A failure there pauses only its account.
    struct Address: Hashable {
        let holder: WakeShares.Holder
        let origin: String
    }

    /// Where a wake goes.
    struct Route: Hashable {
        let service: Service
        /// `nil` where the provider chooses it.
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

    /// A wake that is to be sent now.
    struct Attempt {
        let key: Key
        let order: WakeOrder
        let route: Route
        let holder: WakeShares.Holder
        /// The periods of the service and the address when it was sent.
        let period: Int
        let addressPeriod: Int
        /// How often the credential had been replaced.
        let replacements: Int
    }

    struct Entry {
        var order: WakeOrder
        var deadline: Milliseconds
        var retry = PushRetry()
        var route: Route
        var isInFlight = false
        /// Whether the endpoint has connected since the newest order.
        var isConnected = false
        /// Whether the endpoint connected after the push was sent, and the newest order came after that.
        var isFollowed = false
        var ticket = 0
        /// Whose share it uses, from its first order to its end.
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
        /// Another registration of the same app is not paused.
        let registration: PushRegistration
    }

    enum Event {
        case ready(Ticket)
        case service(Service)
        case address(Address)
    }
}

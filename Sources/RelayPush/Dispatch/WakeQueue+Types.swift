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

    /// What fails and pauses together. Credentials are apart: a provider's pause is for the sender that it counts.
    struct Service: Hashable {
        let credential: PushCredentialID
        /// With Web Push, users choose the services; Apple has two.
        let origin: String?

        init(of order: WakeOrder) {
            credential = order.credential
            origin =
                switch order.registration {
                case .webPush(let endpoint, _, _): DialTarget(endpoint.exposed)?.origin ?? ""
                case .apns(_, let environment): environment.rawValue
                case .fcm, .wns, .polling, .unknown: nil
                }
        }
    }

    /// A wake that is to be sent now.
    struct Attempt {
        let key: Key
        let order: WakeOrder
        let service: Service
        let holder: WakeShares.Holder
        /// The service's period when it was sent.
        let period: Int
        /// How often the credential had been replaced.
        let replacements: Int
    }

    struct Entry {
        var order: WakeOrder
        var deadline: Milliseconds
        var retry = PushRetry()
        var service: Service
        var isInFlight = false
        var isConnected = false
        var ticket = 0
        /// Whose share it uses, from its first order to its end.
        let holder: WakeShares.Holder

        init(_ order: WakeOrder, deadline: Milliseconds) {
            self.order = order
            self.deadline = deadline
            self.service = Service(of: order)
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
    }
}

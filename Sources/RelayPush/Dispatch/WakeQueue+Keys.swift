// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

extension WakeQueue {
    struct Limits: Hashable, Sendable {
        /// Wakes on their way to one service: a provider, and with Web Push each origin.
        var perService = 32
        /// Wakes on their way with the same credentials.
        var perCredential = 64
        /// Outstanding wakes with the same credentials. More are not sent.
        var outstanding = 10_000
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

    struct Service: Hashable {
        let credential: PushCredentialID
        /// With Web Push, which users choose the services of.
        let origin: String?

        init(of order: WakeOrder) {
            credential = order.credential
            origin =
                if case .webPush(let endpoint, _, _) = order.registration { DialTarget(endpoint.exposed)?.origin ?? "" } else { nil }
        }
    }
}

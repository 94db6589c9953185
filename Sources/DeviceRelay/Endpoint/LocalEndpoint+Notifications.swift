// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Notifications, for the rest of the SDK.
extension LocalEndpoint {
    var endpointLoop: EndpointLoop { endpoint.loop }
    var pollingInterval: Int64? { notifier.pollingInterval }

    /// Stores a registration and waits for the relay's answer to it.
    func register(_ registration: StoredNotification) async throws(NotificationRegistrationError) {
        do {
            try await notifier.register(registration)
        } catch {
            throw NotificationRegistrationError(.storageFailed, "the registration cannot be stored: \(error)")
        }
        guard control.isHost else {
            throw NotificationRegistrationError(.notHosting, "it is stored, and is sent once an app is hosted: call host or publish")
        }
        let status = await notifications.first(within: .seconds(30)) { $0.answer != nil || $0.registration != registration }
        guard let status else {
            if Task.isCancelled { throw NotificationRegistrationError(.cancelled, "the task was cancelled") }
            throw NotificationRegistrationError(.relayUnavailable, "it is stored, and is sent on the next connection")
        }
        guard status.registration == registration else {
            throw NotificationRegistrationError(.cancelled, "a newer registration came first")
        }
        if case .failed(let error) = status.answer { throw error }
    }

    /// Asks the relay to answer once all commands have arrived.
    func requestDrain() {
        control.request {
            .mailboxDrain(.init(ref: $0))
        } answer: { [fetching] answer in
            let result: Fetching.Answer =
                switch answer {
                case .ok, .settled: .served
                case .failure: .refused
                case .connectionLost: .connectionLost
                }
            fetching.update { fetching in
                fetching.answers += 1
                fetching.lastAnswer = result
            }
        }
    }
}

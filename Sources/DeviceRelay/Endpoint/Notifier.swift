// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol

/// The endpoint's registration for notifications. It is stored, and is sent on each new connection.
final class Notifier {
    /// What others see of the registration.
    struct Status: Hashable, Sendable {
        var registration: StoredNotification?
        var state = NotificationRegistrationState.unregistered
        /// The relay's answer to the registration; `nil` before it.
        var answer: Answer?
    }

    enum Answer: Hashable, Sendable {
        case registered
        case failed(NotificationRegistrationError)
    }

    private let endpoint: EndpointContext
    private let link: any ControlSending
    private let status: CurrentValue<Status>
    /// Whether a request is on its way.
    private var isSending = false
    private var isAsking = false
    /// The registration that was repeated on this connection because of its state. If that does not help, another one is needed.
    private var repeated: StoredNotification?

    init(_ endpoint: EndpointContext, stored: StoredNotification?, link: any ControlSending, status: CurrentValue<Status>) {
        self.endpoint = endpoint
        self.link = link
        self.status = status
        if stored != nil { status.update { $0.registration = stored } }
    }

    /// The interval at which this endpoint asks the relay while it is suspended, in milliseconds.
    var pollingInterval: Int64? {
        if case .polling(let interval) = status.value.registration?.channel { interval?.count } else { nil }
    }

    /// Stores a registration, and sends it: now or on the next connection.
    func register(_ registration: StoredNotification) async throws {
        try await endpoint.journal.write { try $0.setNotification(registration) }
        status.update { status in
            if status.registration != registration { status.state = .unregistered }
            status.registration = registration
            status.answer = nil
        }
        send()
    }

    /// - Parameter isHost: only a host receives what it is woken for.
    func connected(isHost: Bool) {
        isSending = false
        repeated = nil
        guard isHost else { return }
        send()
        askProvider(repeats: false)
    }

    private func send() {
        guard !isSending, link.isConnected, let registration = status.value.registration else { return }
        isSending = true
        link.request {
            .notificationsRegister(
                .init(
                    ref: $0,
                    appID: registration.appID,
                    displayName: registration.displayName,
                    channel: registration.channel,
                    pushNames: registration.showsNames
                )
            )
        } answer: { [self] answer in
            isSending = false
            // A newer registration was stored in the meantime.
            guard status.value.registration == registration else { return send() }
            switch answer {
            case .ok, .settled: ended(.registered, .registered)
            case .connectionLost: break
            case .failure(let failure): failed(failure)
            }
        }
    }

    private func failed(_ failure: RelayMessage.Failure) {
        switch failure.code {
        case .tooManyRequests, .unavailable: link.afterOnConnection(failure.pause) { [weak self] in self?.send() }
        default: ended(.unregistered, .failed(NotificationRegistrationError(failure)))
        }
    }

    private func ended(_ state: NotificationRegistrationState, _ answer: Answer) {
        status.update { status in
            status.state = state
            status.answer = answer
        }
    }

    /// The relay states what has become of the registration.
    func receive(_ message: RelayMessage.NotificationsState) {
        guard let state = NotificationRegistrationState(rawValue: message.state.rawValue),
            message.appID == status.value.registration?.appID, !isSending
        else { return }
        status.update { $0.state = state }
        guard state != .registered else { return }
        endpoint.logger.info("the registration for notifications has changed", metadata: ["state": "\(state.rawValue)"])
        askProvider(repeats: true)
        // A token that has not changed still works, except a channel URI of WNS, which expires.
        if case .wns = status.value.registration?.channel { return }
        if state != .unregistered { send() }
    }

    /// - Parameter repeats: Whether a registration that has not changed is sent again, because the relay says that it ends or has ended.
    private func askProvider(repeats: Bool) {
        guard let provider = endpoint.settings.notificationProvider, !isAsking else { return }
        isAsking = true
        let account = endpoint.account
        let task = endpoint.loop.spawn(self) { notifier in
            let registration = await appCode { await provider.notificationRegistration(for: account) }
            notifier.isAsking = false
            guard let registration else { return }
            do {
                let stored = try StoredNotification(registration)
                let isKnown = stored == notifier.status.value.registration
                if !isKnown || repeats && notifier.status.value.state != .registered && notifier.repeated != stored {
                    if isKnown { notifier.repeated = stored }
                    try await notifier.register(stored)
                }
            } catch {
                notifier.endpoint.logger.warning("a registration for notifications cannot be used", metadata: ["reason": "\(error)"])
            }
        }
        if task == nil { isAsking = false }
    }
}

extension StoredNotification {
    init(_ registration: NotificationRegistration) throws(NotificationRegistrationError) {
        self.init(
            appID: registration.appID,
            displayName: registration.displayName,
            channel: try registration.channel(),
            showsNames: registration.showsNames
        )
    }

    var registration: NotificationRegistration? {
        NotificationRegistration(channel, appID: appID, displayName: displayName, showsNames: showsNames)
    }
}

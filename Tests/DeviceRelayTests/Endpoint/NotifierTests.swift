// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

/// The registration for notifications, on a real journal.
@Suite(.timeLimit(.minutes(5))) struct NotifierTests {
    /// A notifier with a real journal; the test is the relay.
    private actor World {
        nonisolated let endpoint: EndpointContext
        nonisolated var unownedExecutor: UnownedSerialExecutor { endpoint.loop.unownedExecutor }
        nonisolated let sentMessages = CurrentValue<[EndpointMessage]>([])
        nonisolated let status = CurrentValue(Notifier.Status())
        private let link = TestLink()
        private let notifier: Notifier

        init(_ directory: TemporaryDirectory, provider: (any NotificationProvider)? = nil) throws {
            endpoint = try .sample(directory) { $0.notificationProvider = provider }
            let stored = try endpoint.journal.read { try $0.notification() }
            notifier = Notifier(endpoint, stored: stored, link: link, status: status)
            link.sentMessages = sentMessages
        }

        func connect(isHost: Bool = true) {
            link.isConnected = true
            notifier.connected(isHost: isHost)
        }

        func disconnect() { link.disconnect() }

        func delays() -> Int { link.delayed.count }

        func passDelays() { link.passDelays() }

        func register(_ registration: StoredNotification) async throws { try await notifier.register(registration) }

        func answer(_ ref: RequestRef, _ answer: ControlAnswer) { link.answer(ref, answer) }

        func receive(_ state: RelayMessage.NotificationsState.State, of appID: String = "player") {
            notifier.receive(.init(appID: appID, state: state))
        }

        func pollingInterval() -> Int64? { notifier.pollingInterval }

        func end() async {
            await endpoint.loop.end()
            endpoint.journal.close()
        }

        /// The registrations so far, in order, when there are this many.
        nonisolated func registrations(_ count: Int) async -> [EndpointMessage.NotificationsRegister] {
            (await sentMessages.first { $0.compactMap(\.registration).count >= count } ?? []).compactMap(\.registration)
        }
    }

    private struct Provider: NotificationProvider {
        let token: String

        func notificationRegistration(for account: ConnectedDevicesAccount) async -> NotificationRegistration? {
            NotificationRegistration(type: .fcm, token: token, appID: "player", displayName: "Player")
        }
    }

    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func registration(_ token: String) -> StoredNotification {
        StoredNotification(appID: "player", displayName: "Player", channel: .fcm(token: Secret(token)))
    }

    private func failure(_ ref: RequestRef, _ code: ControlErrorCode) -> ControlAnswer {
        .failure(.init(ref: ref, code: code, message: "no"))
    }

    @Test func registrationIsSentOnEachConnectionOfTheHost() async throws {
        let world = try World(directory)
        try await world.register(registration("one"))
        #expect(world.sentMessages.value.isEmpty)
        await world.connect(isHost: false)
        #expect(world.sentMessages.value.isEmpty)
        await world.connect()
        let first = try #require(await world.registrations(1).first)
        #expect(first.channel == .fcm(token: Secret("one")))
        #expect(world.status.value.state == .unregistered)
        await world.answer(first.ref, .ok(nil))
        #expect(world.status.value.state == .registered)
        #expect(world.status.value.answer == .registered)
        await world.disconnect()
        await world.connect()
        #expect(await world.registrations(2).count == 2)
        await world.end()
        // The next process sends it, too.
        let next = try World(directory)
        await next.connect()
        #expect(await next.registrations(1).first?.channel == .fcm(token: Secret("one")))
        await next.end()
    }

    @Test func answerToAnOlderRegistrationIsIgnored() async throws {
        let world = try World(directory)
        await world.connect()
        try await world.register(registration("one"))
        let first = try #require(await world.registrations(1).first)
        try await world.register(registration("two"))
        #expect(world.sentMessages.value.compactMap(\.registration).count == 1)
        await world.answer(first.ref, failure(first.ref, .unsupported))
        #expect(world.status.value.answer == nil)
        let second = try #require(await world.registrations(2).last)
        #expect(second.channel == .fcm(token: Secret("two")))
        await world.answer(second.ref, .ok(nil))
        #expect(world.status.value.state == .registered)
        await world.end()
    }

    /// The provider has no other channel. Otherwise registration and state would follow each other for ever.
    @Test func refusedRegistrationIsRepeatedOnce() async throws {
        let world = try World(directory, provider: Provider(token: "one"))
        try await world.register(registration("one"))
        await world.connect()
        let first = try #require(await world.registrations(1).first)
        await world.answer(first.ref, .ok(nil))
        await world.receive(.unregistered)
        let second = try #require(await world.registrations(2).last)
        #expect(second.channel == first.channel)
        await world.answer(second.ref, .ok(nil))
        await world.receive(.unregistered)
        // The provider was asked again, and its answer changed nothing.
        await world.end()
        #expect(world.sentMessages.value.compactMap(\.registration).count == 2)
        #expect(world.status.value.state == .unregistered)
    }

    @Test(arguments: [ControlErrorCode.tooManyRequests, .unavailable]) func temporaryErrorIsRetried(_ code: ControlErrorCode) async throws {
        let world = try World(directory)
        await world.connect()
        try await world.register(registration("one"))
        let first = try #require(await world.registrations(1).first)
        await world.answer(first.ref, failure(first.ref, code))
        #expect(world.status.value.answer == nil)
        #expect(await world.delays() == 1)
        await world.passDelays()
        #expect(await world.registrations(2).count == 2)
        await world.end()
    }

    @Test func rejectionIsReportedAndNotRetried() async throws {
        let world = try World(directory)
        await world.connect()
        try await world.register(registration("one"))
        let first = try #require(await world.registrations(1).first)
        await world.answer(first.ref, failure(first.ref, .unsupported))
        #expect(world.status.value.state == .unregistered)
        let error = if case .failed(let error)? = world.status.value.answer { error } else { nil as NotificationRegistrationError? }
        #expect(error?.code == .notSupported)
        #expect(await world.delays() == 0)
        await world.end()
    }

    /// A token that has not changed still works, but not after the push service has rejected it.
    @Test func expiredRegistrationIsSentAgain() async throws {
        let world = try World(directory)
        await world.connect()
        try await world.register(registration("one"))
        let first = try #require(await world.registrations(1).first)
        await world.answer(first.ref, .ok(nil))
        await world.receive(.expiring, of: "another")
        #expect(world.status.value.state == .registered)
        await world.receive(.expiring)
        #expect(world.status.value.state == .expiring)
        let second = try #require(await world.registrations(2).last)
        await world.answer(second.ref, .ok(nil))
        await world.receive(.init(rawValue: "a state of a newer relay"))
        #expect(world.status.value.state == .registered)
        await world.receive(.unregistered)
        #expect(world.status.value.state == .unregistered)
        #expect(world.sentMessages.value.compactMap(\.registration).count == 2)
        await world.end()
    }

    @Test func providerGivesTheRegistration() async throws {
        let world = try World(directory, provider: Provider(token: "from the app"))
        await world.connect()
        let first = try #require(await world.registrations(1).first)
        #expect(first.channel == .fcm(token: Secret("from the app")))
        await world.end()
    }

    @Test func invalidRegistrationOfAProviderIsNotSent() async throws {
        let world = try World(directory, provider: Provider(token: ""))
        await world.connect()
        try await world.register(registration("one"))
        let first = try #require(await world.registrations(1).first)
        await world.answer(first.ref, .ok(nil))
        // The task that asked the provider has ended, too.
        await world.end()
        #expect(world.sentMessages.value.compactMap(\.registration?.channel) == [.fcm(token: Secret("one"))])
    }

    @Test func onlyPollingHasAnInterval() async throws {
        let world = try World(directory)
        try await world.register(registration("one"))
        #expect(await world.pollingInterval() == nil)
        try await world.register(.init(appID: "player", displayName: "Player", channel: .polling(interval: 900_000)))
        #expect(await world.pollingInterval() == 900_000)
        await world.end()
    }
}

extension EndpointMessage {
    fileprivate var registration: NotificationsRegister? { if case .notificationsRegister(let message) = self { message } else { nil } }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

/// The apps that an endpoint publishes, on a real journal.
@Suite(.timeLimit(.minutes(5))) struct PublisherTests {
    /// A publisher with a real journal; the test is the relay.
    private actor World {
        nonisolated let endpoint: EndpointContext
        nonisolated var unownedExecutor: UnownedSerialExecutor { endpoint.loop.unownedExecutor }
        nonisolated let sentMessages = CurrentValue<[EndpointMessage]>([])
        private let link = TestLink()
        private let publisher: Publisher

        init(_ directory: TemporaryDirectory, limits: Limits = Limits()) throws {
            endpoint = try .sample(directory)
            let own = JournalTransaction.OwnEndpoint(account: "account", record: nil, hasEnumerated: false)
            let identity = OwnIdentity(endpoint, stored: own, invitationProof: nil)
            publisher = Publisher(endpoint, link: link, identity: identity)
            link.limits = limits
            link.sentMessages = sentMessages
        }

        func connect() {
            link.isConnected = true
            publisher.connected()
        }

        func disconnect() { link.disconnect() }

        func passDelays() { link.passDelays() }

        func publish(_ registration: RemoteSystemAppRegistration) { publisher.publish(registration) }

        func published(_ appID: String) async -> Result<Void, PublishError> { await publisher.published(appID) }

        func unpublish(_ appID: String) async -> Result<Void, PublishError> { await publisher.unpublish(appID) }

        func answer(_ ref: RequestRef, _ answer: ControlAnswer) { link.answer(ref, answer) }

        func app(_ id: String) -> RemoteSystemAppRegistration? { publisher.app(id) }

        /// Waits until all writes so far are on disk.
        func written() async throws { try await endpoint.journal.write { _ in } }

        func endPublisher() { publisher.end() }

        func end() async {
            publisher.end()
            await endpoint.loop.end()
            endpoint.journal.close()
        }

        /// The publications, in order, when there are this many.
        nonisolated func publications(_ count: Int) async throws -> [Publication] {
            let sentMessages = await sentMessages.first { $0.compactMap(\.publication).count >= count }
            let key = endpoint.identityKey.publicKey
            return try (sentMessages ?? []).compactMap(\.publication).map {
                let signed = try Signed<AppRegistration>(verifying: $0.registration.bytes, key: { (_) throws(RecordError) in key })
                return Publication(ref: $0.ref, signed: signed)
            }
        }
    }

    private struct Publication: Sendable {
        let ref: RequestRef
        let signed: Signed<AppRegistration>
    }

    private let directory: TemporaryDirectory
    private let player = RemoteSystemAppRegistration(appID: "player", displayName: "Player")

    init() throws { directory = try TemporaryDirectory() }

    private func code(_ result: Result<Void, PublishError>) -> PublishError.Code? {
        if case .failure(let error) = result { error.code } else { nil }
    }

    private func failure(_ ref: RequestRef, _ code: ControlErrorCode) -> ControlAnswer {
        .failure(.init(ref: ref, code: code, message: "no"))
    }

    @Test func cancelledTaskDoesNotWaitForTheRelay() async throws {
        let world = try World(directory)
        await world.publish(player)
        let task = Task { await world.published("player") }
        task.cancel()
        #expect(code(await task.value) == .cancelled)
        // The app is still published once there is a connection.
        await world.connect()
        let publication = try #require(try await world.publications(1).first)
        await world.answer(publication.ref, .ok(nil))
        #expect(code(await world.published("player")) == nil)
        await world.end()
    }

    @Test func publishedAppIsAcknowledgedToAllCallers() async throws {
        let world = try World(directory)
        await world.connect()
        await world.publish(player)
        async let first = world.published("player")
        async let second = world.published("player")
        let publications = try await world.publications(1)
        #expect(publications.map(\.signed.payload.appID) == ["player"])
        #expect(publications.map(\.signed.payload.endpoint) == [world.endpoint.id])
        await world.answer(publications[0].ref, .ok(nil))
        for result in await [first, second, world.published("player")] { #expect(code(result) == nil) }
        #expect(try await world.publications(1).count == 1)
        await world.end()
    }

    @Test func appIsPublishedOnEachConnectionUnchanged() async throws {
        let world = try World(directory)
        await world.publish(player)
        #expect(world.sentMessages.value.isEmpty)
        await world.connect()
        let first = try await world.publications(1)[0]
        // The relay does not answer on the first connection.
        await world.disconnect()
        await world.connect()
        let second = try await world.publications(2)[1]
        await world.answer(second.ref, .ok(nil))
        #expect(code(await world.published("player")) == nil)
        await world.disconnect()
        await world.connect()
        let third = try await world.publications(3)[2]
        #expect(Set([first, second, third].map(\.signed.encoded)).count == 1)
        try await world.written()
        await world.end()
        // A restart of the process makes no new version.
        let next = try World(directory)
        await next.connect()
        await next.publish(player)
        #expect(try await next.publications(1)[0].signed == first.signed)
        await next.end()
    }

    @Test func unpublishedAppIsWithdrawn() async throws {
        let world = try World(directory)
        await world.connect()
        await world.publish(player)
        await world.answer(try await world.publications(1)[0].ref, .ok(nil))
        async let result = world.unpublish("player")
        let withdrawal = await world.sentMessages.first { $0.contains { $0.withdrawal != nil } }?.compactMap(\.withdrawal).first
        let unpublish = try #require(withdrawal)
        #expect(unpublish.appID == "player")
        await world.answer(unpublish.ref, .ok(nil))
        #expect(code(await result) == nil)
        #expect(await world.app("player") == nil)
        #expect(code(await world.published("player")) == .cancelled)
        await world.disconnect()
        await world.connect()
        #expect(try await world.publications(1).count == 1)
        #expect(try await world.endpoint.journal.write { try $0.registration(of: "player") } == nil)
        await world.end()
    }

    @Test func withdrawalWithoutAConnectionIsReported() async throws {
        let world = try World(directory)
        await world.publish(player)
        #expect(code(await world.unpublish("player")) == .relayUnavailable)
        await world.connect()
        #expect(world.sentMessages.value.isEmpty)
        await world.end()
    }

    @Test func newerRegistrationOfAnAppReplacesTheOlder() async throws {
        let world = try World(directory)
        await world.connect()
        await world.publish(player)
        let older = try await world.publications(1)[0]
        await world.publish(.init(appID: "player", displayName: "New player"))
        let newer = try await world.publications(2)[1]
        #expect(newer.signed.payload.displayName == "New player")
        #expect(newer.signed.payload.version > older.signed.payload.version)
        // Only the answer to the newer one is the result.
        await world.answer(newer.ref, .ok(nil))
        await world.answer(older.ref, failure(older.ref, .notAuthorized))
        #expect(code(await world.published("player")) == nil)
        await world.disconnect()
        await world.connect()
        #expect(try await world.publications(3).map(\.signed).dropFirst(2) == [newer.signed])
        await world.end()
    }

    @Test func registrationAboveALimitIsReportedAndNotSent() async throws {
        var limits = Limits()
        limits[.attributesPerApp] = 1
        let world = try World(directory, limits: limits)
        await world.connect()
        await world.publish(.init(appID: "player", attributes: ["a": "1", "b": "2"]))
        #expect(code(await world.published("player")) == .limitExceeded)
        #expect(world.sentMessages.value.isEmpty)
        await world.end()
    }

    @Test func rejectionOfTheRelayIsReported() async throws {
        for (rejection, reported) in [(ControlErrorCode.limitExceeded, PublishError.Code.limitExceeded), (.notAuthorized, .refused)] {
            let world = try World(directory)
            await world.connect()
            await world.publish(player)
            let publication = try await world.publications(1)[0]
            await world.answer(publication.ref, failure(publication.ref, rejection))
            #expect(code(await world.published("player")) == reported)
            await world.end()
        }
    }

    @Test func postponedAppIsPublishedAgainAfterThePause() async throws {
        let world = try World(directory)
        await world.connect()
        await world.publish(player)
        for (count, code) in [ControlErrorCode.tooManyRequests, .unavailable].enumerated() {
            let publication = try await world.publications(count + 1)[count]
            await world.answer(publication.ref, failure(publication.ref, code))
            #expect(try await world.publications(0).count == count + 1)
            await world.passDelays()
        }
        let publications = try await world.publications(3)
        #expect(Set(publications.map(\.signed.encoded)).count == 1)
        await world.answer(publications[2].ref, .ok(nil))
        #expect(code(await world.published("player")) == nil)
        await world.end()
    }

    @Test func outdatedRegistrationIsSignedAgain() async throws {
        let world = try World(directory)
        await world.connect()
        await world.publish(player)
        let outdated = try await world.publications(1)[0]
        try await world.written()
        await world.answer(outdated.ref, failure(outdated.ref, .recordOutdated))
        await world.passDelays()
        let again = try await world.publications(2)[1]
        #expect(again.signed.payload.version > outdated.signed.payload.version)
        #expect(again.signed.payload.displayName == "Player")
        await world.end()
    }

    @Test func endResumesTheCallers() async throws {
        let world = try World(directory)
        await world.publish(player)
        async let result = world.published("player")
        await world.endPublisher()
        #expect(code(await result) == .cancelled)
        await world.end()
    }
}

extension EndpointMessage {
    fileprivate var publication: Publish? { if case .publish(let message) = self { message } else { nil } }
    fileprivate var withdrawal: Unpublish? { if case .unpublish(let message) = self { message } else { nil } }
}

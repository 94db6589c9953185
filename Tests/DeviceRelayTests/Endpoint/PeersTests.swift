// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import DeviceRelay

/// An endpoint's knowledge of the others, on a real journal.
@Suite(.timeLimit(.minutes(5))) struct PeersTests {
    private enum Event: Hashable {
        case enumerated
        case shutOut(EndpointID)
        case gone(EndpointID)
    }

    /// The peers of an endpoint with a real journal; the test is the relay.
    private actor World {
        nonisolated let endpoint: EndpointContext
        nonisolated var unownedExecutor: UnownedSerialExecutor { endpoint.loop.unownedExecutor }
        nonisolated let sentMessages = CurrentValue<[EndpointMessage]>([])
        nonisolated let directories = CurrentValue<[String: DeviceDirectory]>([:])
        nonisolated let events = CurrentValue<[Event]>([])
        nonisolated let time = CurrentValue<Int64>(1_793_000_000_000)
        private let link = TestLink()
        private let peers: Peers

        init(_ directory: TemporaryDirectory) throws {
            endpoint = try .sample(directory) { [time] in $0.clock.wall = { time.value } }
            let (id, account) = (endpoint.id, endpoint.account.id)
            let own = JournalTransaction.OwnEndpoint(account: "account", record: nil, hasEnumerated: false)
            let book = try endpoint.journal.read { try PeerBook(own: id, directoryName: account, stored: own, $0) }
            let clock = RelayClock(endpoint.loop, endpoint.journal, offset: 0)
            peers = Peers(endpoint, link: link, clock: clock, book: book, directories: directories)
            peers.onEvent = { [events] event in
                events.update {
                    switch event {
                    case .enumerated: $0.append(.enumerated)
                    case .shutOut(let peer): $0.append(.shutOut(peer))
                    case .gone(let peer): $0.append(.gone(peer))
                    }
                }
            }
            link.sentMessages = sentMessages
        }

        func connect() {
            link.isConnected = true
            peers.connected()
        }

        /// Connects, and lists these endpoints.
        func enumerate(_ members: Member...) {
            connect()
            for member in members { peers.take(.added(member.added())) }
            peers.take(.enumerated)
        }

        func disconnect() {
            link.disconnect()
            peers.disconnected(nil)
        }

        func isTrusted(_ member: Member) -> Bool { peers.isTrusted(member.id) }

        /// The wall clock goes on, or back.
        nonisolated func pass(days: Int64) { time.update { $0 += days * 86_400_000 } }

        /// Waits until all writes so far are on disk.
        func written() async throws { try await endpoint.journal.write { _ in } }

        func passDelays() { link.passDelays() }

        func answer(_ ref: RequestRef, _ answer: ControlAnswer) { link.answer(ref, answer) }

        func added(_ member: Member) { peers.take(.added(member.added())) }

        func updated(_ message: RelayMessage.EndpointUpdated) { peers.take(.updated(message)) }

        func revokedByRelay(_ member: Member) { peers.take(.removed(.init(endpoint: member.id, isRevoked: true, revocation: nil))) }

        func removed(_ member: Member) { peers.take(.removed(.init(endpoint: member.id, isRevoked: false, revocation: nil))) }

        func confirm(_ member: Member) async -> Bool { await peers.confirm(member.id) }

        func revoke(_ member: Member) async throws -> ControlAnswer { try await peers.revoke(member.id, account: "account") }

        func isRefused(_ member: Member) -> Bool { peers.isRefused(member.id) }

        nonisolated var listed: [EndpointID: DeviceDirectory.Trust] {
            guard let directory = directories.value["me"] else { return [:] }
            return Dictionary(directory.endpointIDs.compactMap { id in directory[id].map { (id, $0.trust) } }) { first, _ in first }
        }

        /// The messages of a kind, in order, when there are this many.
        nonisolated func sent<Found: Sendable>(
            _ count: Int,
            _ find: @escaping @Sendable (EndpointMessage) -> Found?
        ) async -> [Found] {
            (await sentMessages.first { $0.compactMap(find).count >= count } ?? []).compactMap(find)
        }

        func end() async {
            link.disconnect()
            await endpoint.loop.end()
            endpoint.journal.close()
        }
    }

    private let directory: TemporaryDirectory
    private let peer: Member

    init() throws {
        directory = try TemporaryDirectory()
        peer = try Member("Peer")
    }

    private func failure(_ ref: RequestRef, _ code: ControlErrorCode, after pause: Int64? = nil) -> ControlAnswer {
        .failure(.init(ref: ref, code: code, message: "no", retryAfter: pause.map { Milliseconds(clamping: $0) }))
    }

    // MARK: The directory

    @Test func messagesOfTheRelayReachTheWatchers() async throws {
        let world = try World(directory)
        await world.connect()
        #expect(world.listed.isEmpty)
        await world.added(peer)
        #expect(world.listed == [peer.id: .new])
        await world.updated(.init(endpoint: peer.id, presence: Presence(.unavailable, .signedOut)))
        #expect(world.directories.value["me"]?[peer.id]?.presence.state == .unavailable)
        #expect(!world.endpoint.status.value.isEnumerated)
        await world.enumerate()
        #expect(world.listed.isEmpty)
        await world.enumerate(peer)
        #expect(world.endpoint.status.value.isEnumerated)
        #expect(world.events.value == [.enumerated, .enumerated])
        await world.removed(peer)
        #expect(world.listed.isEmpty)
        await world.end()
    }

    @Test func peersOfTheFirstEnumerationArePinned() async throws {
        let world = try World(directory)
        await world.enumerate(peer)
        let later = try Member("Later")
        await world.added(later)
        #expect(world.listed == [peer.id: .pinned, later.id: .new])
        try await world.written()
        #expect(try world.endpoint.journal.read { try $0.pins() }.map(\.endpoint) == [peer.id])
        await world.end()
    }

    @Test func lostConnectionMakesThePresenceUnknown() async throws {
        let world = try World(directory)
        await world.enumerate(peer)
        await world.disconnect()
        #expect(world.listed == [peer.id: .pinned])
        #expect(world.directories.value["me"]?[peer.id]?.presence.state != .available)
        #expect(!world.endpoint.status.value.isEnumerated)
        await world.end()
    }

    @Test func rejectedDiscoveryIsRequestedAgain() async throws {
        let world = try World(directory)
        await world.connect()
        let watch = await world.sent(1) { $0.watch }
        await world.answer(watch[0], failure(watch[0], .tooManyRequests))
        #expect(await world.sent(0) { $0.watch }.count == 1)
        await world.passDelays()
        #expect(await world.sent(2) { $0.watch }.count == 2)
        await world.end()
    }

    // MARK: Revocations

    /// Only the relay states it, so it holds until the relay lists the endpoint again, whether this endpoint stops meanwhile or not.
    @Test func revocationByTheRelayOutlivesTheProcess() async throws {
        let first = try World(directory)
        await first.enumerate(peer)
        await first.revokedByRelay(peer)
        #expect(await first.isRefused(peer))
        try await first.written()
        await first.end()
        let second = try World(directory)
        #expect(await second.isRefused(peer))
        #expect(second.listed.isEmpty)
        await second.enumerate(peer)
        #expect(await !second.isRefused(peer))
        #expect(second.listed == [peer.id: .pinned])
        try await second.written()
        await second.end()
        let third = try World(directory)
        #expect(await !third.isRefused(peer))
        await third.end()
    }

    /// The journal is missing or empty, and the keys are there: what the relay lists is not trusted.
    @Test(arguments: [false, true]) func lostJournalTrustsNoListedEndpoint(isEmpty: Bool) async throws {
        let first = try World(directory)
        await first.enumerate(peer)
        #expect(first.listed == [peer.id: .pinned])
        #expect(try first.endpoint.journal.read { try $0.replaced() } == nil)
        _ = try first.endpoint.storage.nextVersion()
        let path = first.endpoint.storage.journalPath
        try await first.written()
        await first.end()
        for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + suffix) }
        if isEmpty { #expect(FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o600])) }
        let context = try EndpointContext.sample(directory)
        #expect(context.id == first.endpoint.id)
        let (replaced, own) = try context.journal.read { (try $0.replaced(), try $0.ownEndpoint()) }
        #expect(replaced != nil)
        #expect(own.hasEnumerated)
        #expect(Journal.replacementWarning(path, at: replaced ?? 0).contains(path))
        context.journal.close()
        // The next process still knows it.
        let next = try EndpointContext.sample(directory)
        #expect(try next.journal.read { try $0.replaced() } == replaced)
        next.journal.close()
    }

    /// Who may have been revoked long ago is not trusted.
    @Test func trustEndsLongAfterTheRelayWasThere() async throws {
        let world = try World(directory)
        await world.enumerate(peer)
        #expect(await world.isTrusted(peer))
        // A connection says each change, however long it lasts.
        world.pass(days: 40)
        #expect(await world.isTrusted(peer))
        await world.disconnect()
        world.pass(days: 30)
        #expect(await world.isTrusted(peer))
        world.pass(days: 1)
        #expect(await !world.isTrusted(peer))
        await world.enumerate(peer)
        #expect(await world.isTrusted(peer))
        // The time of that listing was wrong.
        await world.disconnect()
        world.pass(days: -10)
        #expect(await !world.isTrusted(peer))
        await world.enumerate(peer)
        await world.disconnect()
        #expect(await world.isTrusted(peer))
        // The next process knows the time.
        try await world.written()
        #expect(try world.endpoint.journal.read { try $0.listed() } == world.time.value)
        await world.end()
    }

    @Test func unansweredRevocationIsSentAgainOnTheNextConnection() async throws {
        let world = try World(directory)
        await world.enumerate(peer)
        async let answer = world.revoke(peer)
        let first = await world.sent(1) { $0.revocation }
        #expect(first.map(\.endpoint) == [peer.id])
        #expect(world.listed.isEmpty)
        #expect(world.events.value.contains(.shutOut(peer.id)))
        await world.disconnect()
        let result = try await answer
        #expect(result == .connectionLost)
        await world.enumerate(peer)
        let again = await world.sent(2) { $0.revocation }
        #expect(again.map(\.revocation) == [first[0].revocation, first[0].revocation])
        #expect(world.listed.isEmpty)
        await world.answer(again[1].ref, .ok(nil))
        try await world.written()
        await world.disconnect()
        await world.enumerate(peer)
        #expect(await world.sent(0) { $0.revocation }.count == 2)
        #expect(await world.isRefused(peer))
        await world.end()
    }

    @Test func unsentRevocationIsSentByTheNextProcess() async throws {
        let first = try World(directory)
        await first.enumerate(peer)
        await first.disconnect()
        #expect(try await first.revoke(peer) == .connectionLost)
        await first.end()
        let second = try World(directory)
        #expect(await second.isRefused(peer))
        await second.enumerate(peer)
        #expect(await second.sent(1) { $0.revocation }.map(\.endpoint) == [peer.id])
        #expect(second.listed.isEmpty)
        await second.end()
    }

    @Test func rejectedRevocationIsNotSentAgain() async throws {
        let world = try World(directory)
        await world.enumerate(peer)
        async let answer = world.revoke(peer)
        let revocation = await world.sent(1) { $0.revocation }[0]
        await world.answer(revocation.ref, failure(revocation.ref, .notFound))
        let result = try await answer
        #expect(result == failure(revocation.ref, .notFound))
        try await world.written()
        await world.disconnect()
        await world.enumerate(peer)
        #expect(await world.sent(0) { $0.revocation }.count == 1)
        // It holds on this device.
        #expect(world.listed.isEmpty)
        await world.end()
    }

    @Test func postponedRevocationIsSentAgainOnTheSameConnection() async throws {
        let world = try World(directory)
        await world.enumerate(peer)
        async let answer = world.revoke(peer)
        let first = await world.sent(1) { $0.revocation }[0]
        await world.answer(first.ref, failure(first.ref, .tooManyRequests, after: 1))
        let again = await world.sent(2) { $0.revocation }[1]
        #expect(again.revocation == first.revocation)
        await world.answer(again.ref, .ok(nil))
        let result = try await answer
        #expect(result == .ok(nil))
        await world.end()
    }

    // MARK: Vouchers

    @Test func voucherIsSentOnce() async throws {
        let world = try World(directory)
        await world.enumerate()
        await world.added(peer)
        async let isConfirmed = world.confirm(peer)
        let approval = await world.sent(1) { $0.approval }[0]
        #expect(approval.endpoint == peer.id)
        await world.answer(approval.ref, .ok(nil))
        #expect(await isConfirmed)
        #expect(world.listed == [peer.id: .pinned])
        try await world.written()
        await world.disconnect()
        await world.enumerate(peer)
        #expect(await world.sent(0) { $0.approval }.count == 1)
        await world.end()
    }

    @Test func unansweredVoucherIsSentAgainOnTheNextConnection() async throws {
        let world = try World(directory)
        await world.enumerate()
        await world.added(peer)
        async let isConfirmed = world.confirm(peer)
        _ = await world.sent(1) { $0.approval }
        await world.disconnect()
        #expect(await isConfirmed)
        try await world.written()
        await world.enumerate(peer)
        #expect(await world.sent(2) { $0.approval }.map(\.endpoint) == [peer.id, peer.id])
        await world.end()
    }

    @Test func unknownPeerIsNotConfirmed() async throws {
        let world = try World(directory)
        await world.enumerate()
        #expect(await !world.confirm(peer))
        #expect(await world.sent(0) { $0.approval }.isEmpty)
        await world.end()
    }
}

extension EndpointMessage {
    fileprivate var watch: RequestRef? { if case .watch(let message) = self { message.ref } else { nil } }
    fileprivate var revocation: EndpointRevoke? { if case .endpointRevoke(let message) = self { message } else { nil } }
    fileprivate var approval: EndpointApprove? { if case .endpointApprove(let message) = self { message } else { nil } }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import RelayTesting
import Synchronization
import Testing

@testable import DeviceRelay
@testable import RelayProtocol

/// A stranger reaches nothing but the question to a person. The sessions are real; what lies below them is a relay in place of a network.
@Suite(.timeLimit(.minutes(5))) struct ReceptionAttackTests {
    private actor World {
        nonisolated let endpoint: EndpointContext
        nonisolated var unownedExecutor: UnownedSerialExecutor { endpoint.loop.unownedExecutor }
        nonisolated let asked = Mutex<[SharingHandler.Offer]>([])
        nonisolated let answer = Mutex(SharingHandler.Answer.decline)
        private let clock: Clock
        private var host: ReceptionHost?

        final class Clock: Sendable {
            let value = Atomic<Int64>(0)
        }

        init(_ directory: TemporaryDirectory) throws {
            let clock = Clock()
            self.clock = clock
            endpoint = try .sample(directory) {
                $0.nearby.mode = .visible
                $0.clock.steady = { clock.value.load(ordering: .relaxed) }
            }
        }

        func begin() {
            let handler = SharingHandler { [weak self] offer in
                self?.asked.withLock { $0.append(offer) }
                return self?.answer.withLock { $0 } ?? .decline
            } received: { _ in
            }
            // It has no listener: the sessions come from elsewhere.
            host = ReceptionHost(endpoint, room: ShareRoom(reserve: 0), handler)
        }

        func pass(_ milliseconds: Int64) { clock.value.add(milliseconds, ordering: .relaxed) }

        func admit(_ peer: EndpointID, _ service: String, _ app: String) -> SessionAdmission? {
            guard let address = IPAddress(bytes: [10, 0, 0, 9]) else { return nil }
            let opening = SessionOpening(serviceName: service, appID: app, callerAppID: "", timeLeft: .seconds(5))
            return host?.admit(peer, opening, from: .neighbour(address))
        }

        func asking() throws -> SharingHandler? { host?.asking(from: .neighbour(try #require(IPAddress(bytes: [10, 0, 0, 9])))) }

        func isWanted(_ peer: EndpointID) -> Bool { host?.isWanted(peer) ?? false }

        func opened(by peer: EndpointID) throws -> Bool {
            let address = try #require(IPAddress(bytes: [10, 0, 0, 9]))
            return host?.opened(by: peer, from: .neighbour(address)) ?? false
        }

        func end() async {
            await host?.shutDown()
            host = nil
            await endpoint.loop.end()
            endpoint.journal.close()
        }
    }

    private let directory: TemporaryDirectory
    private let stranger = EndpointID(P256SigningKey().publicKey)

    init() throws { directory = try TemporaryDirectory() }

    /// - Returns: Whether it is served.
    private static func isServed(_ admission: SessionAdmission?) -> Bool { if case .serve? = admission { true } else { false } }

    @Test func nothingButShareIsServed() async throws {
        let world = try World(directory)
        await world.begin()
        #expect(await Self.isServed(world.admit(stranger, "share", "device-relay")))
        for (service, app) in [
            ("peer", "device-relay"), ("commands", "device-relay"), ("doctor", "device-relay"), ("pairing", "device-relay"),
            ("share", "org.device-relay.agent"), ("share", "org.device-relay.receive"), ("ping", "org.device-relay.agent"), ("", ""),
            ("SHARE", "device-relay"), ("share", "device-relay "),
        ] {
            guard case .refuse(let error)? = await world.admit(stranger, service, app) else {
                Issue.record("\(app) \(service) was served")
                continue
            }
            #expect(error.code == .notAuthorized, "\(app) \(service)")
        }
        // After ten minutes, nothing at all.
        await world.pass(ReceptionOffer.duration)
        #expect(await !Self.isServed(world.admit(stranger, "share", "device-relay")))
        await world.end()
    }

    /// The name is what a stranger says, and must be one.
    @Test(
        arguments: [nil, "", " ", "\u{1B}[31mAnna", "An\nna", "\u{202E}annA", String(repeating: "a", count: 65), "\u{200B}"] as [String?]
    )
    func strangerWithoutANameIsNotAskedAbout(name: String?) async throws {
        let world = try World(directory)
        await world.begin()
        let problem = try await Self.offer(name, stranger, in: world)
        #expect(problem == .invalid)
        #expect(world.asked.withLock { $0 }.isEmpty)
        await world.end()
    }

    @Test func strangerIsAskedAboutByItsName() async throws {
        let world = try World(directory)
        await world.begin()
        #expect(try await world.opened(by: stranger))
        #expect(try await Self.offer("Anna's phone", stranger, in: world) == .declined)
        let asked = world.asked.withLock { $0 }
        #expect(asked.map(\.caller.deviceName) == ["Anna's phone"])
        #expect(asked.allSatisfy { $0.caller.isStranger && !$0.caller.isPaired && $0.caller.isNew && $0.caller.endpoint == stranger })
        // Three times, then the address is declined without a question.
        for _ in 0..<4 { #expect(try await Self.offer("Anna's phone", stranger, in: world) == .declined) }
        #expect(world.asked.withLock { $0 }.count == ReceptionOffer.refusalsOfAnAddress)
        await world.end()
    }

    /// A yes is one to what was shown, and not to another content with the same id.
    @Test func otherContentIsAnotherQuestion() async throws {
        let world = try World(directory)
        await world.begin()
        #expect(try await world.opened(by: stranger))
        world.answer.withLock { $0 = .accept(into: URL(filePath: directory.path)) }
        let id = randomID()
        #expect(try await Self.offer("Anna", stranger, in: world, id: id, text: "hello") == nil)
        world.answer.withLock { $0 = .decline }
        // The connection may have been lost.
        #expect(try await Self.offer("Anna", stranger, in: world, id: id, text: "hello") == nil)
        #expect(world.asked.withLock { $0 }.count == 1)
        #expect(try await Self.offer("Anna", stranger, in: world, id: id, text: "something else") == .declined)
        #expect(world.asked.withLock { $0 }.map(\.texts) == [["hello"], ["something else"]])
        await world.end()
    }

    /// The app shows no progress. What arrives keeps the session all the same.
    @Test func transferThatGoesOnKeepsItsSession() async throws {
        let world = try World(directory)
        await world.begin()
        #expect(try await world.opened(by: stranger))
        world.answer.withLock { $0 = .accept(into: URL(filePath: directory.path)) }
        let asking = try #require(try await world.asking())
        let offer = SharingHandler.Offer(
            ShareOffer(id: randomID(), entries: [], notes: [.init(.text, "hello")]),
            from: AppServiceCaller(stranger: stranger)
        )
        _ = await asking.decide(offer)
        await world.pass(ReceptionOffer.stall)
        #expect(await !world.isWanted(stranger))
        let progress = CurrentValue(NearShareProgress(bytesSent: 0, totalBytesToSend: 2, filesSent: 0, totalFilesToSend: 1))
        async let isShown: Void = asking.progress(offer, AsyncValues(progress) { $0 })
        while await !world.isWanted(stranger) { await Task.yield() }
        progress.finish()
        await isShown
        await world.end()
    }

    private func randomID() -> [UInt8] {
        var random = SystemRandomNumberGenerator()
        return randomBytes(ShareLimits.idBytes, using: &random)
    }

    /// Offers a text over a real session, as a sender does that gives itself a name.
    /// - Returns: Why it was not taken.
    private static func offer(
        _ name: String?,
        _ stranger: EndpointID,
        in world: World,
        id: [UInt8]? = nil,
        text: String = "hello"
    ) async throws -> ShareMessages.Problem? {
        guard case .serve(let service, _, let caller)? = await world.admit(stranger, "share", "device-relay") else { return nil }
        // The session's ids are others; the service is the host's.
        let serving = AppService("test") { connection, _ in await service.serve(connection, caller) }
        let result = Mutex<ShareMessages.Problem?>(nil)
        try await SessionWorld.with(services: [serving]) { sessions in
            let connection = try await sessions.session.open(SessionWorld.info, timeout: .seconds(10))
            var random = SystemRandomNumberGenerator()
            let id = id ?? randomBytes(ShareLimits.idBytes, using: &random)
            let page = try #require(try ShareOffer.pages(id: id, entries: [], notes: [.init(.text, text)]).first)
            let answer = try await connection.call(ShareMessages.Offer(page: page, sender: name), timeout: .seconds(10))
            result.withLock { $0 = answer.problem }
            connection.close()
        }
        return result.withLock { $0 }
    }
}

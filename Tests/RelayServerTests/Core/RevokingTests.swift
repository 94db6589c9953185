// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization
import Testing

@testable import RelayServer

/// The effects of a revocation: which endpoints are notified, and which logins end.
@Suite struct RevokingTests {
    private let phone = TestDevice(subject: "me")
    private let pc = TestDevice(subject: "me")
    private let tv = TestDevice(subject: "me")

    private func removals(_ messages: [RelayMessage]) -> [RelayMessage.EndpointRemoved] {
        messages.compactMap { if case .endpointRemoved(let removed) = $0 { removed } else { nil } }
    }

    @Test func revocationReachesCurrentAndLaterWatchers() async throws {
        let world = try await CoreWorld()
        let host = try await world.open(phone)
        let watcher = try await world.open(tv)
        _ = try await world.open(pc)
        try await watcher.send(.watch(.init(ref: testRef())))
        let request = try phone.revocation(of: pc.id, account: host.account)
        guard case .endpointRevoke(let content) = request else { throw TestError("no revocation") }
        try await host.send(request)
        let told = RelayMessage.EndpointRemoved(endpoint: pc.id, isRevoked: true, revocation: content.revocation)
        #expect(removals(try await watcher.receive()) == [told])
        // By the operator, without a signature.
        #expect(try await world.core.revoke(tv.id)?.revoked.map(\.id) == [tv.id])
        #expect(watcher.peer.closeCode == 1008)
        #expect(try await world.core.revoke(tv.id)?.revoked.isEmpty == true)
        #expect(try await world.core.revoke(TestDevice(subject: "me").id) == nil)
        // Permanently, also after a restart.
        try await world.restart()
        let received = try await world.open(phone).send(.watch(.init(ref: testRef())))
        #expect(
            removals(received).sorted { $0.endpoint < $1.endpoint }
                == [told, .init(endpoint: tv.id, isRevoked: true)].sorted { $0.endpoint < $1.endpoint }
        )
        guard case .enumerationCompleted? = received.last else { throw TestError("sent after the enumeration") }
        // Not to another account.
        let outsider = try await world.open(TestDevice(subject: "you"))
        #expect(removals(try await outsider.send(.watch(.init(ref: testRef())))).isEmpty)
    }

    @Test func watchersLearnHowAnEndpointJoined() async throws {
        let world = try await CoreWorld()
        let watcher = try await world.open(phone)
        try await watcher.send(.watch(.init(ref: testRef())))
        var newcomer = pc
        newcomer.inviter = phone.id
        newcomer.address = "2001:db8::1"
        world.clock.pass(1_000)
        let time = Milliseconds(clamping: world.clock.now)
        _ = try await world.open(newcomer)
        func joining(_ messages: [RelayMessage]) -> [Joining?] {
            messages.compactMap { if case .endpointAdded(let added) = $0, added.endpoint == newcomer.id { added.joining } else { nil } }
        }
        let expected = Joining(time: time, invitedBy: phone.id, address: "2001:db8::1")
        #expect(joining(try await watcher.receive()) == [expected])
        // Where it comes from later does not matter.
        newcomer.address = "192.0.2.1"
        world.clock.pass(1_000)
        _ = try await world.open(newcomer, version: 2)
        #expect(joining(try await watcher.send(.watch(.init(ref: testRef())))) == [expected])
    }

    /// An issuer that fails while `fail` is set.
    private final class LoginRegistry: LoginEnding {
        struct Unavailable: Error {}

        struct Ended: Hashable {
            var keyThumbprint: String
            var login: Login?
        }

        private let state = Mutex((fails: false, ended: [Ended]()))

        var ended: [Ended] { state.withLock { $0.ended } }
        func fail(_ fails: Bool) { state.withLock { $0.fails = fails } }

        func endLogins(keyThumbprint: String, login: Login?) async throws {
            try state.withLock { state in
                if state.fails { throw Unavailable() }
                state.ended.append(Ended(keyThumbprint: keyThumbprint, login: login))
            }
        }
    }

    @Test func loginsOfARevokedEndpointEndAfterAFailureAndARestart() async throws {
        let logins = LoginRegistry()
        let world = try await CoreWorld(logins: logins)
        var device = pc
        device.login = Login(issuer: "embedded", session: "first")
        let host = try await world.open(phone)
        _ = try await world.open(device)
        // The login of the newest hello counts; one without a login says nothing.
        device.login = Login(issuer: "embedded", session: "second")
        _ = try await world.open(device)
        device.login = nil
        _ = try await world.open(device)
        logins.fail(true)
        try await host.send(phone.revocation(of: device.id, account: host.account))
        func openRows() async throws -> Int {
            try await world.store.base.transact { try $0.revocationsWithLogins(in: .all, limit: 9).count }
        }
        #expect(try await openRows() == 1)
        #expect(logins.ended.isEmpty)
        // The relay ends before the issuer has done it, and does it at its next start.
        logins.fail(false)
        try await world.restart()
        #expect(try await eventually { !logins.ended.isEmpty })
        let key = device.identityKey.publicKey.jwkThumbprint
        #expect(logins.ended == [.init(keyThumbprint: key, login: Login(issuer: "embedded", session: "second"))])
        for _ in 0..<6_000 where try await openRows() > 0 { try await Task.sleep(for: .milliseconds(10)) }
        #expect(try await openRows() == 0)
    }

    @Test func failedEndOfLoginsIsRetriedWithinAMinute() async throws {
        let logins = LoginRegistry()
        let world = try await CoreWorld(logins: logins)
        let host = try await world.open(phone)
        _ = try await world.open(pc)
        logins.fail(true)
        try await host.send(phone.revocation(of: pc.id, account: host.account))
        #expect(try await eventually { world.core.jobs.withLock { !$0.isEndingLogins } })
        logins.fail(false)
        world.clock.pass(60_000)
        world.core.handleDeadlines()
        #expect(try await eventually { logins.ended.count == 1 })
    }

    /// A new endpoint stays revoked until its logins have ended. Then its revocation is deleted.
    @Test func revocationOfANewEndpointIsDeletedWhenItsLoginsEnd() async throws {
        let logins = LoginRegistry()
        let world = try await CoreWorld(logins: logins)
        _ = try await world.open(phone)
        let host = try await world.open(pc)
        logins.fail(true)
        try await host.send(pc.revocation(of: pc.id, account: host.account))
        #expect(try await world.connect(pc.hello(host.account)).rejection?.code == .endpointRevoked)
        let watcher = try await world.open(tv)
        #expect(removals(try await watcher.send(.watch(.init(ref: testRef())))).isEmpty)
        #expect(try await eventually { world.core.jobs.withLock { !$0.isEndingLogins } })
        logins.fail(false)
        world.clock.pass(60_000)
        world.core.handleDeadlines()
        #expect(try await eventually { logins.ended.count == 1 })
        var rejection: RelayMessage.Rejected?
        for _ in 0..<6_000 {
            rejection = try await world.connect(pc.hello(host.account)).rejection
            if rejection == nil { break }
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(rejection == nil)
    }

    @Test func onlyEstablishedEndpointsMayInvite() async throws {
        let world = try await CoreWorld()
        let host = try await world.open(phone)
        _ = try await world.open(pc)
        func mayInvite(_ device: TestDevice, into other: TestDevice? = nil) async throws -> Bool {
            try await world.core.mayInvite(
                keyThumbprint: device.identityKey.publicKey.jwkThumbprint,
                into: (other ?? device).identity
            )
        }
        #expect(try await mayInvite(phone))
        #expect(try await mayInvite(pc) == false)
        #expect(try await mayInvite(tv) == false)
        // One that is at home in another account is none here.
        let outsider = TestDevice(subject: "you")
        _ = try await world.open(outsider)
        #expect(try await mayInvite(outsider))
        #expect(try await mayInvite(outsider, into: phone) == false)
        try await host.send(phone.approval(of: pc, account: host.account))
        #expect(try await mayInvite(pc))
        try await host.send(phone.revocation(of: pc.id, account: host.account))
        #expect(try await mayInvite(pc) == false)
    }

    /// Endpoints that left by themselves can join again.
    @Test func firstEndpointOfAnEmptiedAccountIsEstablished() async throws {
        let world = try await CoreWorld()
        let host = try await world.open(phone)
        #expect(try await host.send(phone.revocation(of: phone.id, account: host.account)).first?.isOK == true)
        #expect(try await world.connect(phone.hello(host.account)).rejection?.code == .endpointRevoked)
        let next = try await world.open(pc)
        _ = try await world.open(tv)
        #expect(try await next.send(pc.revocation(of: tv.id, account: next.account)).first?.isOK == true)
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

/// Which endpoints are accepted.
@Suite struct ConnectingTests {
    @Test func accountIsCreatedOnlyWithPermission() async throws {
        let world = try await CoreWorld()
        let device = TestDevice(subject: "me")
        let unknown = try await world.connect(device.hello("?", mayMakeAccount: false))
        #expect(unknown.rejection?.code == .accountUnknown)
        let account = try await world.account(of: device)
        #expect(account.utf8.count == 32)
        #expect(try await world.account(of: device) == account)
        #expect(try await world.account(of: TestDevice(subject: "you")) != account)
        let known = try await world.connect(device.hello(account, mayMakeAccount: false))
        #expect(known.rejection == nil)
    }

    /// The store knows better than the identity which account it has.
    @Test func identityUsesTheAccountFromTheStore() async throws {
        let world = try await CoreWorld()
        let device = TestDevice(subject: "second")
        let account = AccountID(of: Identity(issuer: "https://issuer.example", subject: "first"))
        try await world.store.base.transact { try $0.addAccount(account, identity: device.identity, time: 1) }
        #expect(try await world.account(of: device) == account.rawValue)
        let session = try await world.open(device)
        #expect(try await session.send(.watch(.init(ref: testRef()))).first?.isOK == true)
        #expect(world.core.accounts.map(\.id) == [account])
    }

    /// A person can be told whose account it is before anything of the endpoint is stored, and is told a new name at the next connection.
    @Test func theAccountIsNamedBeforeAndAfterTheEndpointIsAccepted() async throws {
        let world = try await CoreWorld()
        let device = TestDevice(subject: "me")
        let unnamed = try await world.connect(device.hello("?"))
        #expect(unnamed.rejection?.code == .wrongAccount)
        #expect(unnamed.rejection?.accountName == nil)
        let account = AccountID(try #require(unnamed.rejection?.account))
        try await world.store.base.transact { try $0.setName("Zoë", of: account) }
        #expect(try await world.connect(device.hello("?")).rejection?.accountName == "Zoë")
        #expect(try await world.store.base.transact { try $0.endpoint(device.id) } == nil)
        #expect(try await world.connect(device.hello(account.rawValue)).get().accountName == "Zoë")
        try await world.store.base.transact { try $0.setName("me", of: account) }
        #expect(try await world.connect(device.hello(account.rawValue)).get().accountName == "me")
    }

    @Test func anEndpointBelongsToOneAccount() async throws {
        let world = try await CoreWorld()
        var device = TestDevice(subject: "me")
        _ = try await world.open(device)
        device.subject = "you"
        let rejection = try await world.connect(device.hello("?")).rejection
        #expect(rejection?.code == .endpointOfOtherAccount)
        #expect(rejection?.account == nil)
    }

    @Test(arguments: [1, 30, 60]) func recordWithAnInvalidSignatureIsNotStored(fromEnd place: Int) async throws {
        let world = try await CoreWorld()
        let device = TestDevice(subject: "me")
        let account = try await world.account(of: device)
        var hello = try device.hello(account)
        var bytes = hello.record.encoded
        bytes[bytes.count - place] ^= 1
        hello.record = try Unverified(decoding: bytes)
        for _ in 0..<2 { #expect(try await world.connect(hello).rejection?.code == .recordInvalid) }
        #expect(try await world.store.base.transact { try $0.endpoint(device.id) } == nil)
        // Nor in place of one that is.
        _ = try await world.open(device)
        #expect(try await world.connect(hello).rejection?.code == .recordInvalid)
        let stored = try await world.store.base.transact { try $0.endpoint(device.id)?.record }
        #expect(stored == (try device.record(account).encoded))
    }

    /// The trust of an account begins with its first endpoint. An app that may only read is none of its devices.
    @Test func loginThatMayNotRegisterDoesNotBeginAnAccount() async throws {
        let world = try await CoreWorld()
        let (reader, phone) = (TestDevice(subject: "me"), TestDevice(subject: "me"))
        let account = try await world.account(of: reader)
        var hello = try reader.hello(account, role: .client)
        hello.scopes = [.deviceRead]
        let rejection = try #require(try await world.connect(hello).rejection)
        #expect(rejection.code == .insufficientScope && !rejection.retry && rejection.message.contains("relay.device.register"))
        _ = try await world.open(phone)
        #expect(try await world.connect(hello).rejection == nil)
        let rows = try await world.store.base.transact { try $0.endpoints(of: AccountID(account)) }
        #expect(rows.filter(\.isEstablished).map(\.id) == [phone.id])
    }

    /// What is stored was verified before that: a record or a registration that is the same to the byte is taken without another look.
    @Test func storedBytesAreNotVerifiedAgain() async throws {
        let world = try await CoreWorld()
        let device = TestDevice(subject: "me")
        let session = try await world.open(device)
        let account = session.account
        func damaged(_ bytes: [UInt8]) -> [UInt8] { bytes.dropLast() + [bytes[bytes.count - 1] ^ 1] }
        let (record, registration) = (
            damaged(try device.record(account).encoded), damaged(try device.registration(account).encoded)
        )
        func publish(_ session: Session) async throws -> [Bool] {
            try await session.send(.publish(.init(ref: testRef(), registration: Blob(registration)))).map(\.isOK)
        }
        #expect(try await publish(session) == [false])
        try await world.store.base.transact { store in
            guard var row = try store.endpoint(device.id) else { throw TestError("no row") }
            row.record = record
            try store.put(row)
            try store.put(RegistrationRow(appID: "player", version: 1, registration: registration), of: device.id, in: row.account)
        }
        var hello = try device.hello(account)
        hello.record = try Unverified(decoding: record)
        let again = try await world.connect(hello).get()
        #expect(try await publish(again) == [true])
        // Only while it is stored.
        #expect(try await again.send(.unpublish(.init(ref: testRef(), appID: "player"))).map(\.isOK) == [true])
        #expect(try await publish(try await world.connect(hello).get()) == [false])
    }

    @Test func aRevokedEndpointNeverComesBack() async throws {
        let world = try await CoreWorld()
        var (device, other) = (TestDevice(subject: "me"), TestDevice(subject: "me"))
        let session = try await world.open(device)
        let client = try await world.open(device, role: .client)
        let revoker = try await world.open(other)
        let account = session.account
        try await session.send(device.approval(of: other, account: account))
        _ = session.peer.take()
        let answers = try await revoker.send(other.revocation(of: device.id, account: account))
        #expect(answers.map(\.isOK) == [true])
        for closed in [session, client] {
            #expect(closed.peer.closeCode == 1008)
            guard case .authInvalidated(let last)? = closed.peer.take().last else { throw TestError("not notified") }
            #expect(last.code == .endpointRevoked)
        }
        for subject in ["me", "you"] {
            device.subject = subject
            #expect(try await world.connect(device.hello("?", version: 9)).rejection?.code == .endpointRevoked)
        }
        // A repetition gives the same answer. Messages on the closed channel are ignored.
        #expect(try await revoker.send(other.revocation(of: device.id, account: account)).map(\.isOK) == [true])
        #expect(try await session.send(.watch(.init(ref: testRef()))).isEmpty)
        try await world.restart()
        #expect(try await world.connect(device.hello("?")).rejection?.code == .endpointRevoked)
        other.name = "x"
        // Oneself, too.
        let again = try await world.open(other, version: 2)
        let own = try await again.send(other.revocation(of: other.id, account: account))
        #expect(own.first?.isOK == true)
        #expect(again.peer.closeCode == 1008)
    }

    @Test func endpointsPerAccountAreLimited() async throws {
        var limits = Limits()
        limits[.endpointsPerAccount] = 2
        let world = try await CoreWorld(limits: limits)
        let devices = (0..<3).map { _ in TestDevice(subject: "me") }
        let first = try await world.open(devices[0])
        _ = try await world.open(devices[1])
        let account = try await world.account(of: devices[2])
        let rejection = try await world.connect(devices[2].hello(account)).rejection
        #expect(rejection?.code == .limitExceeded)
        #expect(rejection?.limit?.error == LimitExceeded(limit: .endpointsPerAccount, allowed: 2, requested: 3))
        // Existing endpoints can reconnect; a revoked one makes room.
        _ = try await world.open(devices[1])
        try await first.send(devices[0].revocation(of: devices[1].id, account: account))
        #expect(try await world.connect(devices[2].hello(account)).rejection == nil)
    }

    @Test func rejectionOfAWrongAccountNamesTheRightOne() async throws {
        let world = try await CoreWorld()
        let device = TestDevice(subject: "me")
        let rejection = try #require(try await world.connect(device.hello("unknown")).rejection)
        #expect(rejection.code == .wrongAccount && rejection.retry)
        let account = try #require(rejection.account)
        #expect(try await world.store.transact { try $0.endpoint(device.id) } == nil)
        #expect(try await world.connect(device.hello(account, version: 2)).rejection == nil)
    }

    @Test func olderRecordIsRejected() async throws {
        let world = try await CoreWorld()
        let device = TestDevice(subject: "me")
        let account = try await world.account(of: device)
        let first = try device.hello(account, version: 3)
        #expect(try await world.connect(first).rejection == nil)
        #expect(try await world.connect(first).rejection == nil)
        #expect(try await world.connect(device.hello(account, version: 2)).rejection?.code == .recordOutdated)
        // The same body under another signature: the relay goes by the bytes.
        var again = first
        again.record = try Unverified(decoding: try Signed(first.record.payload, key: device.identityKey).encoded)
        #expect(try await world.connect(again).rejection?.code == .recordOutdated)
        var renamed = device
        renamed.name = "Kitchen"
        #expect(try await world.connect(renamed.hello(account, version: 3)).rejection?.code == .recordOutdated)
        #expect(try await world.connect(renamed.hello(account, version: 4)).rejection == nil)
    }

    @Test func newerHostReplacesTheOlderOne() async throws {
        let world = try await CoreWorld()
        let device = TestDevice(subject: "me")
        let watcher = try await world.open(TestDevice(subject: "me"))
        let old = try await world.open(device)
        try await watcher.send(.watch(.init(ref: testRef())))
        let client = try await world.open(device, role: .client)
        let new = try await world.open(device)
        #expect(old.peer.take() == [.replaced(.init())])
        #expect(old.peer.closeCode == 1000)
        #expect(new.peer.closeCode == nil)
        #expect(client.peer.closeCode == nil)
        // The old one's end is no news, and its words do not count.
        _ = watcher.peer.take()
        try await old.disconnect()
        #expect(try await old.send(.leaving(.init(ref: testRef(), reason: .shutdown))).isEmpty)
        #expect(try await watcher.receive().isEmpty)
    }

    @Test(arguments: [EndpointMessage.Hello.Role.host, .client])
    func reconnectedProcessReplacesItsOlderChannel(role: EndpointMessage.Hello.Role) async throws {
        let world = try await CoreWorld()
        let (device, instance) = (TestDevice(subject: "me"), Blob<BlobKinds.Instance>.random())
        let account = try await world.account(of: device)
        let watcher = try await world.open(TestDevice(subject: "me"))
        let hello = try device.hello(account, role: role, instance: instance)
        let old = try await world.connect(hello).get()
        try await watcher.send(.watch(.init(ref: testRef())))
        // Another process's channel of the other role, with the same number by chance, is none of its business.
        let other = try await world.connect(device.hello(account, role: role == .host ? .client : .host, instance: instance)).get()
        _ = watcher.peer.take()
        let new = try await world.connect(hello).get()
        #expect(old.peer.closeCode == 1000)
        #expect(old.peer.take() == [])
        #expect([new, other].map(\.peer.closeCode) == [nil, nil])
        // What was still on its way on the older one is not taken.
        let target = TestDevice(subject: "me")
        _ = try await world.open(target)
        let command = try await world.command(from: device, to: target)
        #expect(try await old.send(command).isEmpty)
        #expect(try await world.row(command) == nil)
        #expect(try await new.send(command).first?.isOK == true)
        try await old.disconnect()
        #expect(try await watcher.receive().compactMap(\.presence?.state).allSatisfy { $0 == .available })
        // Its own older channels count for nothing.
        for _ in 0..<10 { #expect(try await world.connect(hello).rejection == nil) }
    }

    @Test func anEndpointHasEightClients() async throws {
        let world = try await CoreWorld()
        let device = TestDevice(subject: "me")
        var clients: [Session] = []
        for _ in 0..<8 { clients.append(try await world.open(device, role: .client)) }
        let account = try await world.account(of: device)
        #expect(try await world.connect(device.hello(account, role: .client)).rejection?.code == .tooManyClients)
        #expect(try await world.connect(device.hello(account)).rejection == nil)
        try await clients[3].disconnect()
        #expect(try await world.connect(device.hello(account, role: .client)).rejection == nil)
    }

    @Test func helloIsRejectedWhenTheStoreFails() async throws {
        let world = try await CoreWorld()
        let device = TestDevice(subject: "me")
        let account = try await world.account(of: device)
        world.store.failAlways(true)
        let rejection = try await world.connect(device.hello(account)).rejection
        #expect(rejection?.code == .unavailable)
        #expect(rejection?.retry == true)
        world.store.failAlways(false)
        #expect(try await world.connect(device.hello(account)).rejection == nil)
    }

    @Test func stoppingRelayAnnouncesItAndRejectsHellos() async throws {
        let world = try await CoreWorld()
        let device = TestDevice(subject: "me")
        let session = try await world.open(device)
        await world.core.stop()
        guard case .restarting? = session.peer.take().last else { throw TestError("not notified") }
        #expect(try await world.connect(device.hello("?")).rejection?.code == .unavailable)
    }

    @Test func clientsPublishNothingAndMayRenameAndWithdraw() async throws {
        let world = try await CoreWorld()
        let device = TestDevice(subject: "me")
        let account = try await world.account(of: device)
        let client = try await world.open(device, role: .client)
        let requests: [EndpointMessage] = [
            .publish(.init(ref: testRef(), registration: Blob(try device.registration(account).encoded))),
            .leaving(.init(ref: testRef(), reason: .suspended)),
        ]
        for request in requests { #expect(try await client.send(request).map { $0.failure?.code } == [.notAuthorized]) }
        // The next process withdraws the app of a host that has crashed.
        let host = try await world.open(device)
        #expect(try await host.send(requests[0]).map(\.isOK) == [true])
        #expect(try await world.store.base.transact { try $0.registrations(of: device.id).map(\.appID) } == ["player"])
        #expect(try await client.send(.unpublish(.init(ref: testRef(), appID: "player"))).map(\.isOK) == [true])
        #expect(try await world.store.base.transact { try $0.registrations(of: device.id).map(\.appID) } == [])
        // As with the record of its hello: the command line renames the device while an agent hosts.
        let record = try device.record(account, version: 5)
        #expect(try await client.send(.endpointUpdate(.init(ref: testRef(), record: Blob(record.encoded)))) == [.ok(.init(ref: testRef()))])
        #expect(try await world.store.base.transact { try $0.endpoint(device.id)?.record } == record.encoded)
    }
}

extension Result where Failure == RelayMessage.Rejected {
    var rejection: RelayMessage.Rejected? { if case .failure(let rejected) = self { rejected } else { nil } }
}

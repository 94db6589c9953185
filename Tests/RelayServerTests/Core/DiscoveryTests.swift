// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import Testing

@testable import RelayServer

/// The events that watchers receive.
@Suite struct DiscoveryTests {
    @Test func watchersGetAllEndpointsAndThenChanges() async throws {
        let world = try await CoreWorld()
        let (watcher, device) = (TestDevice(subject: "me"), TestDevice(subject: "me"))
        let account = try await world.account(of: device)
        let watching = try await world.open(watcher)
        let start = Milliseconds(clamping: world.clock.now)
        let first = try await watching.send(.watch(.init(ref: testRef())))
        #expect(first.count == 3)
        #expect(first.first?.isOK == true)
        #expect(first.last == .enumerationCompleted(.init()))
        #expect(first[1].presence == Presence(.available, .connected, since: start))

        let host = try await world.open(device)
        let row = try await world.store.transact { try $0.endpoint(device.id) }
        let record = Blob<BlobKinds.EndpointRecord>(try #require(row).record)
        let available = Presence(.available, .connected, since: start)
        #expect(
            try await watching.receive() == [
                .endpointAdded(
                    .init(
                        endpoint: device.id,
                        introduction: .init(record: record),
                        registrations: [],
                        presence: available,
                        joining: Joining(time: start)
                    )
                )
            ]
        )
        let (player, other) = (try device.registration(account), try device.registration(account, appID: "other"))
        for registration in [player, other] {
            let answer = try await host.send(.publish(.init(ref: testRef(), registration: Blob(registration.encoded))))
            #expect(answer.map(\.isOK) == [true])
        }
        let published = try await watching.receive()
        #expect(published.count == 2)
        #expect(published.last == .endpointUpdated(.init(endpoint: device.id, registrations: [Blob(other.encoded), Blob(player.encoded)])))
        // The same again is no news, and so is an app that was not there.
        try await host.send(.publish(.init(ref: testRef(), registration: Blob(player.encoded))))
        try await host.send(.unpublish(.init(ref: testRef(), appID: "nothing")))
        #expect(try await watching.receive().isEmpty)
        try await host.send(.unpublish(.init(ref: testRef(), appID: "other")))
        #expect(try await watching.receive() == [.endpointUpdated(.init(endpoint: device.id, registrations: [Blob(player.encoded)]))])

        var renamed = device
        renamed.name = "Kitchen"
        let newer = try renamed.record(account, version: 2)
        try await host.send(.endpointUpdate(.init(ref: testRef(), record: Blob(newer.encoded))))
        #expect(
            try await watching.receive() == [.endpointUpdated(.init(endpoint: device.id, introduction: .init(record: Blob(newer.encoded))))]
        )
        let voucher = Blob<BlobKinds.Voucher>(try Signed(Voucher(by: watcher.id, for: newer, time: 1), key: watcher.identityKey).encoded)
        let approved = try await watching.send(.endpointApprove(.init(ref: testRef(), endpoint: device.id, voucher: voucher)))
        let introduction = Introduction(record: Blob(newer.encoded), vouchers: [voucher])
        #expect(approved == [.ok(.init(ref: testRef())), .endpointUpdated(.init(endpoint: device.id, introduction: introduction))])

        // A second `watch` tells all again; after `unwatch` there is nothing.
        let again = try await watching.send(.watch(.init(ref: testRef(2))))
        #expect(again.count == 4)
        #expect(
            again.contains(
                .endpointAdded(
                    .init(
                        endpoint: device.id,
                        introduction: introduction,
                        registrations: [Blob(player.encoded)],
                        presence: available,
                        joining: Joining(time: start)
                    )
                )
            )
        )
        #expect(try await watching.send(.unwatch(.init(ref: testRef()))) == [.ok(.init(ref: testRef()))])
        try await host.disconnect()
        #expect(try await watching.receive().isEmpty)
    }

    @Test func watchAndUnwatchAreServedInOrder() async throws {
        let world = try await CoreWorld()
        let device = TestDevice(subject: "me")
        let watching = try await world.open(TestDevice(subject: "me"))
        let host = try await world.open(device)
        _ = world.core.receive(.watch(.init(ref: testRef(1))), on: watching.channel)
        _ = world.core.receive(.leaving(.init(ref: testRef(1), reason: .suspended)), on: host.channel)
        _ = world.core.receive(.unwatch(.init(ref: testRef(2))), on: watching.channel)
        world.core.disconnected(host.channel, isSilent: false)
        let received = try await watching.receive()
        #expect(received.last == .ok(.init(ref: testRef(2))))
        #expect(received.filter(\.isOK).count == 2)
    }

    @Test func registrationsAreCheckedAndBounded() async throws {
        var limits = Limits()
        limits[.appRegistrationsBytes] = 1_500
        let world = try await CoreWorld(limits: limits)
        let device = TestDevice(subject: "me")
        let account = try await world.account(of: device)
        let host = try await world.open(device)
        func publish(_ registration: Signed<AppRegistration>) async throws -> ControlErrorCode? {
            try await host.send(.publish(.init(ref: testRef(), registration: Blob(registration.encoded)))).first?.failure?.code
        }
        #expect(try await publish(device.registration(account, version: 3)) == nil)
        #expect(try await publish(device.registration(account, version: 2)) == .recordOutdated)
        #expect(try await publish(device.registration(account, version: 3, name: "Other")) == .recordOutdated)
        #expect(try await publish(device.registration("elsewhere")) == .signatureInvalid)
        #expect(try await publish(TestDevice(subject: "me").registration(account)) == .signatureInvalid)
        var codes: [ControlErrorCode?] = []
        for index in 0..<6 { codes.append(try await publish(device.registration(account, appID: "app\(index)"))) }
        #expect(codes.first == .some(nil))
        #expect(codes.last == .limitExceeded)
        let stored = try await world.store.transact { try $0.registrations(of: device.id) }
        #expect(stored.reduce(0) { $0 + $1.registration.count } <= 1_500)
    }

    @Test func everyPresenceStateHasItsReason() async throws {
        let world = try await CoreWorld()
        let device = TestDevice(subject: "me")
        let watching = try await world.open(TestDevice(subject: "me"))
        try await watching.send(.watch(.init(ref: testRef())))
        func presence() async throws -> Presence? { try await watching.receive().last?.presence }
        func watched() async throws -> Presence? {
            let told = try await watching.send(.watch(.init(ref: testRef())))
            for case .endpointAdded(let event) in told where event.endpoint == device.id { return event.presence }
            return nil
        }
        func time() -> Milliseconds { Milliseconds(clamping: world.clock.now) }

        let client = try await world.open(device, role: .client)
        #expect(try await presence() == Presence(.unavailable, .neverSeen))
        for (reason, shown) in [
            (EndpointMessage.Leaving.Reason.suspended, Presence.Reason.suspended), (.signedOut, .signedOut), (.shutdown, .shutdown),
        ] {
            world.clock.pass(1_000)
            let host = try await world.open(device)
            let expected = Presence(.available, .connected, since: time())
            #expect(try await presence() == expected)
            #expect(try await watched() == expected)
            world.clock.pass(1_000)
            #expect(try await host.send(.leaving(.init(ref: testRef(), reason: reason))).map(\.isOK) == [true])
            let left = Presence(.unavailable, shown, since: time())
            #expect(try await presence() == left)
            world.clock.pass(1_000)
            try await host.disconnect()
            #expect(try await presence() == nil)
            #expect(try await watched() == left)
        }
        let host = try await world.open(device)
        _ = try await presence()
        try await host.disconnect(isSilent: true)
        let lost = Presence(.unavailable, .lost, since: time())
        #expect(try await presence() == lost)
        try await client.disconnect()
        try await watching.disconnect()

        // A relay that starts knows nothing of anybody for 75 s.
        world.clock.pass(5_000)
        try await world.restart()
        let started = time()
        let later = try await world.open(TestDevice(subject: "me"))
        func told(_ session: Session) async throws -> Presence? {
            try await session.receive().last { if case .endpointUpdated(let event) = $0 { event.endpoint == device.id } else { false } }?
                .presence
        }
        let first = try await later.send(.watch(.init(ref: testRef())))
        let unknown = first.compactMap {
            if case .endpointAdded(let event) = $0, event.endpoint == device.id { event.presence } else { nil }
        }
        #expect(unknown == [Presence(.unknown, .relayStarting, since: started)])
        world.clock.pass(74_999)
        world.core.handleDeadlines()
        #expect(try await told(later) == nil)
        world.clock.pass(1)
        world.core.handleDeadlines()
        #expect(try await told(later) == lost)
        world.core.handleDeadlines()
        #expect(try await told(later) == nil)
    }

    @Test func vouchersAreBounded() async throws {
        var limits = Limits()
        limits[.endpointsPerAccount] = 400
        let world = try await CoreWorld(limits: limits)
        let device = TestDevice(subject: "me")
        let account = try await world.open(device).account
        var code: ControlErrorCode?
        for _ in 0..<399 where code == nil {
            let giver = TestDevice(subject: "me")
            let session = try await world.connect(giver.hello(account)).get()
            code = try await session.send(giver.approval(of: device, account: account)).last?.failure?.code
        }
        #expect(code == .limitExceeded)
        let bytes = try await world.store.base.transact { try $0.vouchers(for: device.id).reduce(0) { $0 + $1.count } }
        #expect(((63 << 10)...(64 << 10)).contains(bytes))
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Testing

@testable import RelayServer

/// Endpoints come, go and change at random. The state that a watcher has built from the changes always equals the state that a new watcher gets.
@Suite struct DiscoverySimulationTests {
    /// A watcher as the SDK has it: records checked, devices grouped.
    private struct Watcher {
        let session: Session
        var book: RecordBook
        var directory: DeviceDirectory

        init(_ session: Session, account: String) async throws {
            self.session = session
            self.book = RecordBook(account: account)
            self.directory = DeviceDirectory(account: account)
            directory.beginEnumeration()
            try take(try await session.send(.watch(.init(ref: testRef()))))
        }

        mutating func take(_ messages: [RelayMessage]) throws {
            for message in messages {
                switch message {
                case .endpointAdded(let event):
                    let record = try book.add(endpointRecord: event.introduction.record.bytes, of: event.endpoint).payload
                    let registrations = try read(event.registrations, of: event.endpoint)
                    directory.add(.init(record: record, registrations: registrations, presence: event.presence, trust: .new))
                case .endpointUpdated(let event):
                    guard directory[event.endpoint] != nil else { throw TestError("an update of what was not added") }
                    let record = try event.introduction.map { try book.add(endpointRecord: $0.record.bytes, of: event.endpoint).payload }
                    var registrations: [AppRegistration]?
                    if let blobs = event.registrations { registrations = try read(blobs, of: event.endpoint) }
                    directory.update(event.endpoint) { endpoint in
                        if let record { endpoint.record = record }
                        if let registrations { endpoint.registrations = registrations }
                        if let presence = event.presence { endpoint.setPresence(presence, on: .relay) }
                    }
                case .endpointRemoved(let event):
                    book.remove(event.endpoint)
                    directory.remove(event.endpoint)
                case .enumerationCompleted: directory.completeEnumeration()
                default: break
                }
            }
        }

        private mutating func read(_ blobs: [Blob<BlobKinds.AppRegistration>], of endpoint: EndpointID) throws -> [AppRegistration] {
            try book.set(appRegistrations: blobs.map(\.bytes), of: endpoint).map(\.payload)
        }
    }

    private struct Actor {
        var device: TestDevice
        var version: UInt64 = 1
        var appVersion: UInt64 = 0
        var host: Session?
    }

    @Test(arguments: [1, 2, 3] as [UInt64]) func oldAndNewWatchersSeeTheSame(_ seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        let world = try await CoreWorld()
        let account = try await world.account(of: TestDevice(subject: "me"))
        let watchingDevice = TestDevice(subject: "me")
        let watchingHost = try await world.open(watchingDevice)
        var watcher = try await Watcher(watchingHost, account: account)
        let outsider = try await world.open(TestDevice(subject: "you"))
        try await outsider.send(.watch(.init(ref: testRef())))
        var actors = (0..<6).map { _ in Actor(device: TestDevice(subject: "me")) }
        var changes = 0

        for round in 0..<60 {
            // Several at once, so that transactions overlap.
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let index = Int.random(in: 0..<actors.count, using: &random)
                world.clock.pass(Int64.random(in: 0...2_000, using: &random))
                guard let host = actors[index].host else {
                    actors[index].host = try await world.open(actors[index].device, version: actors[index].version)
                    continue
                }
                switch Int.random(in: 0..<9, using: &random) {
                case 0...2:
                    actors[index].appVersion += 1
                    let appID = ["player", "viewer"].randomElement(using: &random) ?? "player"
                    let registration = try actors[index].device.registration(account, appID: appID, version: actors[index].appVersion)
                    _ = world.core.receive(.publish(.init(ref: testRef(), registration: Blob(registration.encoded))), on: host.channel)
                case 3: _ = world.core.receive(.unpublish(.init(ref: testRef(), appID: "player")), on: host.channel)
                case 4:
                    actors[index].version += 1
                    actors[index].device.name = "Device \(actors[index].version)"
                    let record = try actors[index].device.record(account, version: actors[index].version)
                    _ = world.core.receive(.endpointUpdate(.init(ref: testRef(), record: Blob(record.encoded))), on: host.channel)
                case 5:
                    _ = world.core.receive(.leaving(.init(ref: testRef(), reason: .suspended)), on: host.channel)
                    world.core.disconnected(host.channel, isSilent: false)
                    actors[index].host = nil
                case 6:
                    world.core.disconnected(host.channel, isSilent: true)
                    actors[index].host = nil
                case 7:
                    // A newer channel takes over.
                    try await world.settle()
                    actors[index].host = try await world.open(actors[index].device, version: actors[index].version)
                default:
                    let other = Int.random(in: 0..<actors.count, using: &random)
                    guard round % 7 == 0, other != index else { continue }
                    // Of the actors some are established, so that some revocations are refused.
                    if random.next() & 1 == 0 {
                        let approval = try watchingDevice.approval(
                            of: actors[index].device,
                            account: account,
                            version: actors[index].version
                        )
                        _ = world.core.receive(approval, on: watchingHost.channel)
                    }
                    let revocation = try actors[index].device.revocation(of: actors[other].device.id, account: account)
                    _ = world.core.receive(revocation, on: host.channel)
                    actors[other] = Actor(device: TestDevice(subject: "me"))
                }
            }
            let news = try await watcher.session.receive()
            changes += news.count
            try watcher.take(news)
            let newcomer = try await Watcher(world.open(watchingDevice, role: .client), account: account)
            #expect(try await watcher.session.receive().isEmpty)
            #expect(watcher.directory.systems() == newcomer.directory.systems(), "seed \(seed), round \(round)")
            try await newcomer.session.disconnect()
        }
        #expect(changes > 60)
        #expect(try await outsider.receive().isEmpty)
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Files, links and texts between devices through a real relay.
@Suite(.serialized, .timeLimit(.minutes(10))) struct SharingTests {
    private struct World {
        let home: TestHome
        let network: TestNetwork
        let (phone, pc): (TestDevice, TestDevice)
        let folder: URL
        let received = Log<SharingHandler.Received>()
        let asked = Log<SharingHandler.Offer>()
        var into: URL { folder.appending(path: "into") }

        /// - Parameter liar: Answers requests in place of the SDK.
        init(
            into: URL? = nil,
            answer: SharingHandler.Answer? = nil,
            liar: (@Sendable (ValueSet) -> ValueSet)? = nil
        ) async throws {
            home = try await TestHome(networks: ["127.0.0.11"])
            network = try await TestNetwork("127.0.0.11", to: home.relayd)
            phone = try await home.guests(in: [network], change: NetworkFaultTests.impatient)[0]
            pc = try await home.device("PC", change: NetworkFaultTests.impatient)
            folder = home.directory.appending(path: "files")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let (asked, received, place) = (asked, received, into ?? folder.appending(path: "into"))
            let lies = liar.map { liar in
                AppService("share") { connection, _ in try await connection.respond { request in liar(request.message) } }
            }
            let app = RemoteSystemAppRegistration(
                appID: "org.example.files",
                services: lies.map { [$0] } ?? [],
                sharing: lies != nil
                    ? nil
                    : SharingHandler(
                        decide: { offer in
                            await asked.add(offer)
                            return answer ?? .accept(into: place)
                        },
                        received: { await received.add($0) }
                    )
            )
            try await pc.platform.publish(app, for: pc.account)
            try await phone.sees("PC") { !$0.apps.isEmpty }
        }

        func file(_ name: String, bytes: Int) throws -> URL {
            let url = folder.appending(path: name)
            try Data((0..<bytes).map { UInt8(truncatingIfNeeded: $0 / 7) }).write(to: url)
            return url
        }

        func send(_ items: [NearShareItem]) async throws -> NearShareOperation {
            let system = try await phone.sees("PC")
            return NearShareSender(phone.platform).send(items, to: RemoteSystemConnectionRequest(system))
        }

        func stop() async throws {
            try await network.stop()
            await phone.platform.shutdown()
            await pc.platform.shutdown()
        }
    }

    /// The code of what a transfer fails with; `nil` without an error.
    private static func code(_ body: () async throws -> NearShareReport) async -> NearShareError.Code? {
        do {
            _ = try await body()
            return nil
        } catch {
            return (error as? NearShareError)?.code ?? .failed
        }
    }

    @Test func itemsArriveAndBothSidesKnow() async throws {
        let world = try await World()
        let file = try world.file("a.bin", bytes: 3_000_000)
        let uri = try LaunchURI("https://a.example/")
        let operation = try await world.send([.file(file), .uri(uri), .text("hello")])
        let report = try await operation.result()
        #expect(report.names == ["a.bin"] && report.files == 1 && report.bytesSent == 3_000_000 && report.leftOut.isEmpty)
        let received = try #require(await world.received.wait(for: 1).first)
        #expect(received.urls.map(\.path) == [world.into.appending(path: "a.bin").path] && received.missing.isEmpty)
        #expect(received.offer.uris == [uri] && received.offer.texts == ["hello"] && received.offer.caller.deviceName == "Guest 0")
        #expect(try Data(contentsOf: world.into.appending(path: "a.bin")) == Data(contentsOf: file))
        var last: NearShareProgress?
        for await progress in operation.progress { last = progress }
        #expect(last?.bytesSent == 3_000_000 && last?.filesSent == 1 && last?.phase == .sending)
        #expect(NearShareSender(world.phone.platform).isNearShareSupported(RemoteSystemConnectionRequest(try await world.phone.sees("PC"))))
        // Without files there is no stream.
        #expect(try await world.send([.text("again")]).result().names.isEmpty)
        #expect(await world.received.wait(for: 2)[1].offer.texts == ["again"])
        try await world.stop()
    }

    /// The network stops after some bytes, in either direction, again and again. The transfer continues, asks no second time, and sends
    /// nothing twice that was confirmed.
    @Test func lostNetworksAreSurvived() async throws {
        let world = try await World()
        let file = try world.file("large.bin", bytes: 24 << 20)
        let cuts = [(5 << 20, Set(TestNetwork.Direction.allCases)), (4 << 20, [.toRelay])]
        try await world.network.cut(cuts[0].1, after: cuts[0].0, .toRelay)
        let operation = try await world.send([.file(file)])
        var (interruptions, wasSending) = (0, false)
        for await progress in operation.progress {
            if progress.phase == .interrupted, wasSending {
                interruptions += 1
                try await world.network.mend()
                if interruptions < cuts.count { try await world.network.cut(cuts[interruptions].1, after: cuts[interruptions].0, .toRelay) }
            }
            wasSending = progress.phase == .sending
        }
        let report = try await operation.result()
        #expect(report.names == ["large.bin"] && interruptions >= cuts.count)
        #expect(await world.asked.entries.count == 1)
        #expect(try Data(contentsOf: world.into.appending(path: "large.bin")) == Data(contentsOf: file))
        #expect(try FileManager.default.contentsOfDirectory(atPath: world.into.path) == ["large.bin"])
        try await world.stop()
    }

    /// A sender that comes back before its old connection is noticed to be lost goes on in the same place.
    @Test func newConnectionOfATransferTakesThePlaceOfTheOld() async throws {
        let world = try await World()
        let system = RemoteSystemConnectionRequest(try await world.phone.sees("PC"))
        func offer(_ id: UInt8) throws -> ValueSet {
            let entries = [ShareOffer.RawEntry(path: ["large"], size: 1 << 20, modified: 0)]
            let page = ShareOffer.Page(id: [UInt8](repeating: id, count: 16), entries: entries, notes: [], more: false)
            return ["Type": "offer", "page": .valueSet(try ValueSetEncoder().encode(page))]
        }
        let info = AppServiceInfo(name: "share", appID: "org.example.files")
        var older: AppServiceConnection?
        // The same attempt again, and then another one, as after a new start of the sender.
        for id in [1, 1, 1, 2, 3] as [UInt8] {
            let connection = try await world.phone.platform.openAppService(info, on: system)
            #expect(try await connection.send(try offer(id))["token"]?.data?.count == 32)
            if let older { #expect(try await older.closed.status != .unknown) }
            let names = try FileManager.default.contentsOfDirectory(atPath: world.into.path)
            #expect(names.count == 1 && names.allSatisfy { $0.hasSuffix(".relay-part") })
            older = connection
        }
        #expect(await world.asked.entries.count == 3)
        // An attempt that gave way does not come back before the newer one has ended.
        let late = try await world.phone.platform.openAppService(info, on: system)
        #expect(try await late.send(try offer(2))["problem"] == "busy")
        older?.close()
        var isFree = false
        while !isFree {
            let again = try await world.phone.platform.openAppService(info, on: system)
            isFree = try await again.send(try offer(2))["token"] != nil
        }
        try await world.stop()
    }

    @Test func refusalsSayWhy() async throws {
        let declined = try await World(answer: .decline)
        let file = try declined.file("a.bin", bytes: 10)
        #expect(await Self.code { try await declined.send([.file(file)]).result() } == .deniedByRemoteSystem)
        #expect(await Self.code { try await declined.send([.file(declined.folder.appending(path: "none"))]).result() } == .fileNotFound)
        #expect(await Self.code { try await declined.send([]).result() } == .failed)
        let unknown = RemoteSystemConnectionRequest(systemID: try #require(RemoteSystem.ID("nobody")))
        let lost = NearShareSender(declined.phone.platform).send([.text("x")], to: unknown)
        #expect(await Self.code { try await lost.result() } == .remoteSystemUnavailable)
        try await declined.stop()
    }

    /// What a receiver says that cannot be so ends the transfer, or is ignored. It crashes nothing, and no success is reported of it.
    @Test func lyingReceiversAreNotBelieved() async throws {
        let have: [ValueSet] = [
            ["entry": 0, "length": .int(.max), "digest": .data([UInt8](repeating: 1, count: 32))],
            ["entry": 0, "length": .int(.max), "digest": .data([UInt8](repeating: 1, count: 32))],
            ["entry": .int(Int64(UInt32.max)), "length": 1, "digest": .data([UInt8](repeating: 1, count: 32))],
            ["entry": 0, "length": -1, "digest": .data([UInt8](repeating: 1, count: 32))],
            ["entry": 0, "length": 10, "digest": .data([UInt8](repeating: 1, count: 32))],
        ]
        let offers: [(ValueSet, NearShareError.Code?)] = [
            // A stream that nobody expects. It may say that it has all the same.
            (["token": .data([UInt8](repeating: 1, count: 32)), "have": .array(have.map { .valueSet($0) })], nil),
            (["token": .data([1])], .versionMismatch),
            (["problem": "no such problem"], .versionMismatch),
            (["problem": "declined"], .deniedByRemoteSystem),
            (["have": "nothing"], .versionMismatch),
        ]
        for (offer, code) in offers {
            let world = try await World { message in
                switch message["Type"]?.string {
                case "offer": offer
                case "progress": ["bytes": .int(.max), "files": .int(.max)]
                default: ["names": .array([.string("a")]), "failed": .array([["entry": .int(Int64(UInt32.max)), "problem": "damaged"]])]
                }
            }
            let file = try world.file("a.bin", bytes: 10)
            let system = RemoteSystemConnectionRequest(try await world.phone.sees("PC"))
            let operation = NearShareSender(world.phone.platform).send([.file(file)], to: system, patience: .milliseconds(1))
            let result = await Self.code { try await operation.result() }
            #expect(code == nil || result == code, "\(offer)")
            for await progress in operation.progress { #expect((0...10).contains(progress.bytesSent)) }
            try await world.stop()
        }
        // Without files it decides what it says, but not how that looks.
        let world = try await World(liar: { $0["Type"]?.string == "offer" ? [:] : ["names": .array([.string("a\u{1B}[31m")])] })
        #expect(try await world.send([.text("x")]).result().names == ["a\u{FFFD}[31m"])
        try await world.stop()
    }

    @Test(.enabled(if: SmallDisk.isPossible)) func fullDisksAreNamed() async throws {
        let disk = try SmallDisk(megabytes: 8)
        let world = try await World(into: disk.directory)
        let file = try world.file("a.bin", bytes: 10)
        #expect(await Self.code { try await world.send([.file(file)]).result() } == .remoteDiskFull)
        #expect(try FileManager.default.contentsOfDirectory(atPath: disk.directory.path).isEmpty)
        try await world.stop()
    }

    @Test func cancelledTransferLeavesNoName() async throws {
        let world = try await World()
        let file = try world.file("large.bin", bytes: 24 << 20)
        try await world.network.cut(Set(TestNetwork.Direction.allCases), after: 5 << 20, .toRelay)
        let operation = try await world.send([.file(file)])
        for await progress in operation.progress where progress.phase == .interrupted { operation.cancel() }
        #expect(await Self.code { try await operation.result() } == .cancelled)
        #expect(!FileManager.default.fileExists(atPath: world.into.appending(path: "large.bin").path))
        // On a busy machine the session may be lost before the content comes.
        let part = try FileManager.default.subpathsOfDirectory(atPath: world.into.path).first { $0.hasSuffix("/large.bin") }
        let isBegun = try part.map {
            try FileManager.default.attributesOfItem(atPath: world.into.appending(path: $0).path)[.size] as? Int ?? 0 > 0
        }
        try await world.network.mend()
        // The relay may still have to notice that the network is back.
        var report: NearShareReport?
        while report == nil {
            let again = try await world.send([.file(file)])
            if await Self.code({ try await again.result() }) != .networkError { report = try await again.result() }
        }
        #expect(report?.names == ["large.bin"])
        if isBegun == true { #expect(report?.bytesSent ?? .max < 24 << 20) }
        try await world.stop()
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol
import Testing

/// Messages over real sockets and real TLS.
@Suite(.timeLimit(.minutes(10))) struct SessionExchangeTests {
    /// A message of so many encoded bytes.
    static func message(encodedBytes count: Int) throws -> ValueSet {
        var size = count
        // The heads grow with the length.
        while true {
            let message: ValueSet = ["Data": .data(Array(repeating: UInt8(truncatingIfNeeded: count), count: size))]
            let excess = try message.encodedSize() - count
            if excess == 0 { return message }
            size -= excess
        }
    }

    static let ways: [([TestTunnelRelay.Way], [TestTunnelRelay.Way])] = [
        ([.socket], [.socket]), ([.webSocket], [.webSocket]), ([.socket], [.webSocket]), ([.webSocket], [.socket]),
    ]

    @Test(arguments: ways) func messagesUpToTheLimitAreEchoed(_ opener: [TestTunnelRelay.Way], _ target: [TestTunnelRelay.Way]) async throws
    {
        try await SessionWorld.with(ways: (opener, target), services: [.echo()]) { world in
            let connection = try await world.open()
            #expect(try await connection.send([:]) == [:])
            // Without optimization WebSocket frames are masked slowly.
            let largest = opener == [.socket] && target == [.socket] ? 16 << 20 : 1 << 20
            for size in [64, (32 << 10) - 1, 32 << 10, (32 << 10) + 1, largest] {
                let message = try Self.message(encodedBytes: size)
                #expect(try await connection.send(message) == message, "\(size)")
            }
            let tooLarge = try Self.message(encodedBytes: (16 << 20) + 1)
            #expect(await code { () async throws(AppServiceError) in try await connection.send(tooLarge) } == .messageTooLarge)
            // The connection stays open.
            #expect(try await connection.send(["Text": "still here"]) == ["Text": "still here"])
            await world.opener.hasFree(128 << 20)
            await world.target.hasFree(128 << 20)
        }
    }

    /// What tasks want at once is done in one turn of the loop: requests, some of them taken back at once, and answers, some of them too large.
    @Test func concurrentRequestsGetTheirAnswers() async throws {
        var limits = Limits()
        limits[.messageBytes] = 1_000
        let service = AppService("test") { connection, _ in
            try await connection.respond(concurrently: 64) { request in
                guard case .int(let number) = request.message["Number"], number % 5 == 0 else { return request.message }
                return ["Data": .data(Array(repeating: 1, count: 2_000))]
            }
        }
        try await SessionWorld.with(limits: limits, services: [service]) { world in
            let connection = try await world.open()
            for _ in 0..<5 {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for number in 0..<200 {
                        let message: ValueSet = ["Number": .int(Int64(number))]
                        let asking = Task { () async -> Result<ValueSet, AppServiceError> in
                            do throws(AppServiceError) {
                                return .success(try await connection.send(message))
                            } catch {
                                return .failure(error)
                            }
                        }
                        if number % 3 == 0 { asking.cancel() }
                        group.addTask {
                            switch await asking.value {
                            case .success(let answer):
                                #expect(answer == message)
                                #expect(number % 5 != 0)
                            case .failure(let error):
                                let wasCancelled = number % 3 == 0 && error.code == .cancelled
                                #expect(wasCancelled || number % 5 == 0 && error.code == .messageTooLarge, "\(number): \(error)")
                            }
                        }
                    }
                    try await group.waitForAll()
                }
            }
            connection.close()
            #expect(await Inventory.settled(world.session).isEmpty)
            #expect(await Inventory.settled(world.targetSession).isEmpty)
        }
    }

    @Test func tooLargeResponseIsRejected() async throws {
        let tooLarge = try Self.message(encodedBytes: (16 << 20) + 1)
        let service = AppService("test") { connection, _ in try await connection.respond { _ in tooLarge } }
        try await SessionWorld.with(services: [service]) { world in
            let connection = try await world.open()
            #expect(await code { () async throws(AppServiceError) in try await connection.send([:]) } == .messageTooLarge)
        }
    }

    @Test func messageLimitOfThePeerApplies() async throws {
        var limits = Limits()
        limits[.messageBytes] = 1 << 10
        try await SessionWorld.with(targetLimits: limits, services: [.echo()]) { world in
            let connection = try await world.open()
            let fits = try Self.message(encodedBytes: 1 << 10)
            #expect(try await connection.send(fits) == fits)
            let tooLarge = try Self.message(encodedBytes: (1 << 10) + 1)
            #expect(await code { () async throws(AppServiceError) in try await connection.send(tooLarge) } == .messageTooLarge)
        }
    }

    @Test func thousandRequestsAreInFlight() async throws {
        let all = Signal()
        let count = Shared(0)
        let service = AppService("test") { connection, _ in
            try await connection.respond(concurrently: 1_000) { request in
                // None is answered before all are there.
                if count.withLock({
                    $0 += 1
                    return $0
                }) == 1_000 {
                    all.happen()
                }
                await all.wait()
                return request.message
            }
        }
        try await SessionWorld.with(services: [service]) { world in
            let connection = try await world.open()
            let answers = try await withThrowingTaskGroup(of: (Int, ValueSet).self) { group in
                for number in 0..<1_000 {
                    group.addTask { (number, try await connection.send(["Number": .int(Int64(number))])) }
                }
                return try await group.reduce(into: [:]) { $0[$1.0] = $1.1["Number"]?.int }
            }
            #expect(answers == Dictionary(uniqueKeysWithValues: (0..<1_000).map { ($0, $0) }))
        }
    }

    @Test func requestsAboveTheLimitFailLocally() async throws {
        var limits = Limits()
        limits[.requestsPerConnection] = 2
        let arrived = AsyncStream.makeStream(of: AppServiceRequest.self)
        let service = AppService("test") { connection, _ in
            for await request in connection.requests { arrived.continuation.yield(request) }
        }
        try await SessionWorld.with(limits: limits, services: [service]) { world in
            let connection = try await world.open()
            async let first = connection.send(["Number": 1])
            async let second = connection.send(["Number": 2])
            var requests: [AppServiceRequest] = []
            for await request in arrived.stream {
                requests.append(request)
                if requests.count == 2 { break }
            }
            #expect(await code { () async throws(AppServiceError) in try await connection.send([:]) } == .resourceLimitsExceeded)
            for request in requests { try await request.respond(request.message) }
            #expect(try await [first, second] == [["Number": 1], ["Number": 2]])
        }
    }

    @Test func sixtyFourConnectionsShareASession() async throws {
        try await SessionWorld.with(services: [.echo()]) { world in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<64 {
                    group.addTask {
                        let connection = try await world.open()
                        for round in 0..<10 {
                            let message: ValueSet = ["Number": .int(Int64(number)), "Round": .int(Int64(round))]
                            #expect(try await connection.send(message) == message)
                        }
                        connection.close()
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await world.relay.counts.accepted == 2)
        }
    }

    @Test func stalledServiceDoesNotBlockOthers() async throws {
        let stalled = AppService("stalled") { connection, _ in _ = try await connection.closed }
        try await SessionWorld.with(services: [stalled, .echo()]) { world in
            let stuck = try await world.open("stalled")
            let message = try Self.message(encodedBytes: 30 << 10)
            let large = try Self.message(encodedBytes: 12 << 20)
            // Far more than a window, and a large one for the budget.
            let codes = Shared<[AppServiceError.Code?]>([])
            try await withThrowingTaskGroup(of: Void.self) { group in
                for index in 0..<40 {
                    group.addTask {
                        let message = index == 0 ? large : message
                        let code = await code { () async throws(AppServiceError) in try await stuck.send(message, timeout: .seconds(600)) }
                        codes.withLock { $0.append(code) }
                    }
                }
                let connection = try await world.open()
                for _ in 0..<500 { #expect(try await connection.send(["Text": "hello"]) == ["Text": "hello"]) }
                #expect(try await connection.send(large) == large)
                stuck.close()
                try await group.waitForAll()
            }
            #expect(codes.value == Array(repeating: .appServiceConnectionClosed, count: 40))
            #expect(await Inventory.settled(world.session).isEmpty)
            #expect(await Inventory.settled(world.targetSession).isEmpty)
            await world.target.hasFree(128 << 20)
        }
    }

    @Test func allSessionsOfAnEndpointShareItsBudget() async throws {
        var limits = Limits()
        limits[.messageBytes] = 64 << 10
        limits[.assemblyBytesPerEndpoint] = 256 << 10
        let goOn = Signal()
        let service = AppService("test") { connection, caller in
            // The requests of the first app are received and not taken.
            if caller.appID == "first" {
                await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { _ = try await connection.closed }
                    await goOn.wait()
                    group.cancelAll()
                }
            }
            try await connection.respond { $0.message }
        }
        let relay = try await TestTunnelRelay()
        let target = try SessionSide(limits: limits, services: [service])
        let large = try Self.message(encodedBytes: 64 << 10)
        func connect(_ name: String) async throws -> (session: PeerSession, accepted: PeerSession, connection: AppServiceConnection) {
            let tunnel = relay.tunnel()
            async let accepted = target.connector.acceptSession(over: tunnel.target) { _ in true }
            let session = try await SessionSide().connector.open(to: target.id, over: tunnel.opener)
            return (session, try await accepted, try await session.open(SessionWorld.info, from: name, timeout: .seconds(30)))
        }
        let (first, second) = (try await connect("first"), try await connect("second"))
        async let held = first.connection.send(large)
        while await first.accepted.inventory()["exchanges"] != 1 { await Task.yield() }
        await target.hasFree(192 << 10)
        async let waiting = second.connection.send(large)
        while await second.accepted.inventory()["claims"] != 1 { await Task.yield() }
        // Small messages do not wait.
        #expect(try await second.connection.send(["Text": "small"]) == ["Text": "small"])
        goOn.happen()
        #expect(try await held == large)
        #expect(try await waiting == large)
        await target.hasFree(256 << 10)
        for session in [first.session, second.session] { await session.shutDown() }
        await relay.stop()
    }

    @Test func sessionSurvivesAPausedTunnel() async throws {
        try await SessionWorld.with(services: [.echo()]) { world in
            let connection = try await world.open()
            try await world.relay.hold(true)
            let message = try Self.message(encodedBytes: 8 << 20)
            let timedOut = await code { () async throws(AppServiceError) in try await connection.send([:], timeout: .milliseconds(50)) }
            #expect(timedOut == .timedOut)
            async let answer = connection.send(message)
            async let small = connection.send(["Text": "small"])
            try await world.relay.hold(false)
            #expect(try await answer == message)
            #expect(try await small == ["Text": "small"])
        }
    }

    @Test func bothSidesSendRequestsOnOneConnection() async throws {
        let service = AppService("test") { connection, _ in
            try await connection.respond { request in
                let back = try await connection.send(["Question": request.message["Text"] ?? ""])
                return ["Answer": back["Reply"] ?? ""]
            }
        }
        try await SessionWorld.with(services: [service]) { world in
            let connection = try await world.open()
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    try await connection.respond { request in ["Reply": request.message["Question"] ?? ""] }
                }
                #expect(try await connection.send(["Text": "round"]) == ["Answer": "round"])
                connection.close()
                try await group.waitForAll()
            }
        }
    }

    /// Requests of both sides fill all the memory for requests, and their handlers need large answers of the other side to go on.
    @Test func largeResponsesDoNotWaitForRequests() async throws {
        var limits = Limits()
        limits[.messageBytes] = 64 << 10
        limits[.assemblyBytesPerSession] = 128 << 10
        limits[.assemblyBytesPerEndpoint] = 256 << 10
        let large = try Self.message(encodedBytes: 60 << 10)
        let service = AppService("test") { connection, _ in
            try await connection.respond { request in
                let answer = try await connection.send([:], timeout: .seconds(300))
                return ["IsEqual": .bool(answer == request.message)]
            }
        }
        try await SessionWorld.with(limits: limits, services: [service]) { world in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for session in [world.session, world.targetSession] {
                    let connection = try await session.open(SessionWorld.info, timeout: .seconds(30))
                    group.addTask { try await connection.respond { _ in large } }
                    group.addTask {
                        try await withThrowingTaskGroup(of: Void.self) { calls in
                            for _ in 0..<40 {
                                calls.addTask {
                                    let answer = try await connection.send(large, timeout: .seconds(300))
                                    #expect(answer == ["IsEqual": true])
                                }
                            }
                            try await calls.waitForAll()
                        }
                        connection.close()
                    }
                }
                try await group.waitForAll()
            }
            await world.opener.hasFree(256 << 10)
            await world.target.hasFree(256 << 10)
        }
    }

    @Test func targetOpensConnectionsOnTheSameSession() async throws {
        try await SessionWorld.with(services: [.echo()]) { world in
            let there = try await world.open()
            let back = try await world.targetSession.open(SessionWorld.info, timeout: .seconds(30))
            #expect(try await back.send(["Text": "back"]) == ["Text": "back"])
            #expect(try await there.send(["Text": "there"]) == ["Text": "there"])
        }
    }

    struct Album: AppServiceCall {
        static let type = "album"
        struct Response: Codable, Sendable, Equatable { let photos: Int }
        let name: String
    }

    @Test func callsAreTyped() async throws {
        let service = AppService("test") { connection, _ in
            try await connection.respond { request in
                guard request.message == ["Type": "album", "name": "Rome"] else { return ["photos": "many"] }
                return ["photos": 3]
            }
        }
        try await SessionWorld.with(services: [service]) { world in
            let connection = try await world.open()
            #expect(try await connection.call(Album(name: "Rome")) == Album.Response(photos: 3))
            #expect(await code { () async throws(AppServiceError) in try await connection.call(Album(name: "Oslo")) } == .invalidMessage)
        }
    }
}

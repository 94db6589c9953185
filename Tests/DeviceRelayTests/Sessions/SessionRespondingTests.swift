// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol
import Testing

/// How a service's handlers run, over real sockets and real TLS.
@Suite(.timeLimit(.minutes(10))) struct SessionRespondingTests {
    /// How many are at something, and how many were at once.
    struct Load: Sendable {
        var now = 0
        var most = 0
        var total = 0

        mutating func begin() {
            now += 1
            total += 1
            most = max(most, now)
        }
    }

    @Test(arguments: [0, 1, 3, 40]) func concurrentHandlersAreLimited(_ concurrently: Int) async throws {
        let load = Shared(Load())
        let full = Signal()
        let service = AppService("test") { connection, _ in
            try await connection.respond(concurrently: concurrently) { request in
                let now = load.withLock { load in
                    load.begin()
                    return load.now
                }
                if now >= concurrently { full.happen() }
                // The first ones wait until as many are there as may be.
                await full.wait()
                await Task.yield()
                load.withLock { $0.now -= 1 }
                return request.message
            }
        }
        try await SessionWorld.with(services: [service]) { world in
            let connection = try await world.open()
            try await Self.sendAtOnce(200, on: connection)
            #expect(load.value.most == max(1, concurrently))
            #expect(load.value.total == 200)
            // What waits for further requests is not what was at work.
            try await Self.sendAtOnce(200, on: connection)
            #expect(load.value.most == max(1, concurrently))
            connection.close()
            #expect(await Inventory.settled(world.targetSession).isEmpty)
        }
    }

    static func sendAtOnce(_ count: Int, on connection: AppServiceConnection) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<count {
                let message: ValueSet = ["Number": .int(Int64(number))]
                group.addTask {
                    let answer = try await connection.send(message, timeout: .seconds(300))
                    #expect(answer == message)
                }
            }
            try await group.waitForAll()
        }
    }

    @Test(arguments: [1, 2]) func handlerIsCancelledOnlyForItsOwnRequest(_ concurrently: Int) async throws {
        let began = AsyncStream.makeStream(of: Void.self)
        let wrong = Shared(0)
        let service = AppService("test") { connection, _ in
            try await connection.respond(concurrently: concurrently) { request in
                switch request.message["Type"]?.string {
                case "wait":
                    began.continuation.yield()
                    // Until the call is cancelled, or about then.
                    for _ in 0..<(request.message["Turns"]?.int ?? 0) where !Task.isCancelled { await Task.yield() }
                case "cancel itself":
                    withUnsafeCurrentTask { $0?.cancel() }
                default:
                    if Task.isCancelled { wrong.withLock { $0 += 1 } }
                    await Task.yield()
                    if Task.isCancelled { wrong.withLock { $0 += 1 } }
                }
                return request.message
            }
        }
        try await SessionWorld.with(services: [service]) { world in
            let connection = try await world.open()
            var beginnings = began.stream.makeAsyncIterator()
            for round in 0..<300 {
                let call = Task { try await connection.send(["Type": "wait", "Turns": .int(Int64(round % 30))]) }
                _ = await beginnings.next()
                async let other = connection.send(["Round": .int(Int64(round))])
                call.cancel()
                #expect(try await connection.send(["Text": "next"]) == ["Text": "next"])
                #expect(try await other == ["Round": .int(Int64(round))])
                _ = await call.result
                if round % 10 == 0 { #expect(try await connection.send(["Type": "cancel itself"]) == ["Type": "cancel itself"]) }
            }
            #expect(wrong.value == 0)
            connection.close()
            #expect(await Inventory.settled(world.targetSession).isEmpty)
        }
    }

    /// Returns some time after the task is cancelled.
    private static func cancelledAndSlow() async {
        let cancelled = Signal()
        await withTaskCancellationHandler {
            await cancelled.wait()
        } onCancel: {
            cancelled.happen()
        }
        for _ in 0..<100 { await Task.yield() }
    }

    @Test func cancelledRespondWaitsForItsHandlers() async throws {
        let (began, finished) = (Signal(), Shared(0))
        let events = AsyncStream.makeStream(of: String.self)
        let service = AppService("test") { connection, _ in
            let responding = Task {
                do throws(AppServiceError) {
                    try await connection.respond { request in
                        began.happen()
                        await Self.cancelledAndSlow()
                        finished.withLock { $0 += 1 }
                        return request.message
                    }
                } catch {
                    events.continuation.yield("\(error.code), \(finished.value) finished")
                }
            }
            await began.wait()
            responding.cancel()
            await responding.value
            // The connection is still there.
            for await request in connection.requests { try await request.respond(["Text": "by hand"]) }
        }
        try await SessionWorld.with(services: [service]) { world in
            let connection = try await world.open()
            #expect(try await connection.send(["Text": "kept"]) == ["Text": "kept"])
            var iterator = events.stream.makeAsyncIterator()
            #expect(await iterator.next() == "cancelled, 1 finished")
            #expect(try await connection.send([:]) == ["Text": "by hand"])
        }
    }

    @Test func respondCancelledBeforeItBeginsAnswersNothing() async throws {
        let service = AppService("test") { connection, _ in
            let responding = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return await code { () async throws(AppServiceError) in try await connection.respond { _ in ["Text": "wrong"] } }
            }
            let outcome: ValueSet = ["IsCancelled": .bool(await responding.value == .cancelled)]
            for await request in connection.requests { try await request.respond(outcome) }
        }
        try await SessionWorld.with(services: [service]) { world in
            let connection = try await world.open()
            #expect(try await connection.send([:]) == ["IsCancelled": true])
        }
    }

    @Test func handlersAreCancelledWithTheConnectionAndAwaited() async throws {
        let began = AsyncStream.makeStream(of: Void.self)
        let finished = Shared(0)
        let after = AsyncStream.makeStream(of: Int.self)
        let service = AppService("test") { connection, _ in
            try await connection.respond { request in
                began.continuation.yield()
                await Self.cancelledAndSlow()
                finished.withLock { $0 += 1 }
                return request.message
            }
            after.continuation.yield(finished.value)
        }
        try await SessionWorld.with(services: [service]) { world in
            let connection = try await world.open()
            await withTaskGroup(of: AppServiceError.Code?.self) { group in
                for _ in 0..<5 { group.addTask { await code { () async throws(AppServiceError) in try await connection.send([:]) } } }
                var beginnings = began.stream.makeAsyncIterator()
                for _ in 0..<5 { _ = await beginnings.next() }
                connection.close()
                for await code in group { #expect(code == .appServiceConnectionClosed) }
            }
            var iterator = after.stream.makeAsyncIterator()
            #expect(await iterator.next() == 5)
            #expect(await Inventory.settled(world.targetSession).isEmpty)
        }
    }

    @Test func blockedResponsesHoldBackHandlers() async throws {
        let (handled, arrived) = (Shared(0), Shared(0))
        let goOn = Signal()
        let answer = try SessionExchangeTests.message(encodedBytes: 30 << 10)
        let service = AppService("test") { connection, _ in
            try await connection.respond { _ in
                await goOn.wait()
                handled.withLock { $0 += 1 }
                return answer
            }
        }
        var limits = Limits()
        limits[.assemblyBytesPerSession] = 512 << 10
        try await SessionWorld.with(limits: limits, services: [service]) { world in
            let connection = try await world.open()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<200 {
                    group.addTask {
                        let received = try await connection.send([:], timeout: .seconds(500))
                        #expect(received == answer)
                        arrived.withLock { $0 += 1 }
                    }
                }
                while await world.targetSession.inventory()["exchanges"] != 200 { await Task.yield() }
                try await world.relay.hold(true)
                goOn.happen()
                // 256 KiB fit into the window, as much again are small ones that may wait, and then the session's part. After that each handler
                // waits with its own.
                while await world.targetSession.inventory()["responses", default: 0] < 12 { await Task.yield() }
                for _ in 0..<500 {
                    _ = await world.targetSession.inventory()
                    await Task.yield()
                }
                #expect((25...60).contains(handled.value), "\(handled.value)")
                #expect(arrived.value == 0)
                try await world.relay.hold(false)
                try await group.waitForAll()
            }
            #expect(arrived.value == 200)
            connection.close()
            #expect(await Inventory.settled(world.targetSession).isEmpty)
        }
    }

    @Test func tooLargeResponseFailsAtTheCaller() async throws {
        var limits = Limits()
        limits[.messageBytes] = 1 << 10
        let service = AppService("test") { connection, _ in
            let large = try SessionExchangeTests.message(encodedBytes: (1 << 10) + 1)
            try await connection.respond { request in
                request.message["Large"]?.bool == true ? large : ["Text": "small"]
            }
        }
        try await SessionWorld.with(limits: limits, targetLimits: Limits(), services: [service]) { world in
            let connection = try await world.open()
            for _ in 0..<20 {
                #expect(await code { () async throws(AppServiceError) in try await connection.send(["Large": true]) } == .messageTooLarge)
            }
            #expect(try await connection.send([:]) == ["Text": "small"])
            connection.close()
            #expect(await Inventory.settled(world.targetSession).isEmpty)
        }
    }
}

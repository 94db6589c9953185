// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import Testing

/// How connections and requests begin and end.
@Suite(.timeLimit(.minutes(10))) struct SessionLifeTests {
    struct Plain: Error {}

    static func send(_ connection: AppServiceConnection, _ message: ValueSet = [:], timeout: Duration = .seconds(30)) async
        -> AppServiceError.Code?
    {
        await code { () async throws(AppServiceError) in try await connection.send(message, timeout: timeout) }
    }

    // MARK: Opening

    @Test func serviceKnowsItsCaller() async throws {
        let callers = Shared<[AppServiceCaller]>([])
        let service = AppService("test") { connection, caller in
            callers.withLock { $0.append(caller) }
            #expect(connection.info == SessionWorld.info)
            try await connection.respond { $0.message }
        }
        try await SessionWorld.with(services: [service]) { world in
            let connection = try await world.open()
            _ = try await connection.send([:])
            #expect(callers.value.map(\.endpoint) == [world.opener.id])
            #expect(callers.value.map(\.appID) == ["com.example.remote"])
        }
    }

    @Test func connectionsAreRefusedWithTheirCodes() async throws {
        let services = [
            AppService("restricted") { _, _ in throw AppServiceError(.notAuthorized, message: "ask the owner\u{1B}[0m") },
            AppService("broken") { _, _ in throw Plain() },
            AppService("friends", allowedApps: ["com.example.friend"]) { connection, _ in try await connection.respond { $0.message } },
        ]
        try await SessionWorld.with(services: services) { world in
            let error = await #expect(throws: AppServiceError.self) { try await world.open("restricted") }
            #expect(error?.code == .notAuthorized)
            #expect(error?.message == "ask the owner\u{FFFD}[0m")
            #expect(await code { () async throws(AppServiceError) in try await world.open("broken") } == .appUnavailable)
            #expect(await code { () async throws(AppServiceError) in try await world.open("none") } == .appServiceUnavailable)
            #expect(await code { () async throws(AppServiceError) in try await world.open("friends") } == .remoteSystemNotSupportedByApp)
            let other = AppServiceInfo(name: "friends", appID: "com.example.other")
            let friend = AppServiceInfo(name: "friends", appID: "com.example.app")
            let noApp = await code { () async throws(AppServiceError) in try await world.session.open(other, timeout: .seconds(30)) }
            #expect(noApp == .appNotInstalled)
            let nameless = await code { () async throws(AppServiceError) in try await world.session.open(friend, timeout: .seconds(30)) }
            #expect(nameless == .remoteSystemNotSupportedByApp)
            let connection = try await world.session.open(friend, from: "com.example.friend", timeout: .seconds(30))
            #expect(try await connection.send([:]) == [:])
            connection.close()
            let long = String(repeating: "n", count: 5_000)
            #expect(await code { () async throws(AppServiceError) in try await world.open(long) } == .appServiceUnavailable)
            #expect(await Inventory.settled(world.session).isEmpty)
            #expect(await Inventory.settled(world.targetSession).isEmpty)
        }
    }

    @Test func serviceThatReturnsAtOnceCompletesTheConnection() async throws {
        try await SessionWorld.with(services: [AppService("test") { _, _ in }]) { world in
            let connection = try await world.open()
            #expect(try await connection.closed == AppServiceClosure(.completed))
            #expect(await Self.send(connection) == .appServiceConnectionClosed)
        }
    }

    @Test func openingTimesOutOrIsCancelled() async throws {
        let begun = AsyncStream.makeStream(of: Void.self)
        let ended = AsyncStream.makeStream(of: Bool.self)
        let goOn = Signal()
        let service = AppService("test") { connection, _ in
            begun.continuation.yield()
            await goOn.wait()
            // It was taken back meanwhile.
            ended.continuation.yield(await connection.requests.first { _ in true } == nil)
        }
        try await SessionWorld.with(services: [service]) { world in
            let timedOut = await code { () async throws(AppServiceError) in try await world.open(timeout: .milliseconds(20)) }
            #expect(timedOut == .timedOut)
            var begins = begun.stream.makeAsyncIterator()
            await begins.next()
            let task = Task { await code { () async throws(AppServiceError) in try await world.open() } }
            await begins.next()
            task.cancel()
            #expect(await task.value == .cancelled)
            goOn.happen()
            var ends = ended.stream.makeAsyncIterator()
            #expect(await ends.next() == true)
            #expect(await ends.next() == true)
            #expect(await Inventory.settled(world.session).isEmpty)
            #expect(await Inventory.settled(world.targetSession).isEmpty)
        }
    }

    @Test func connectionsAreLimited() async throws {
        var limits = Limits()
        limits[.connectionsPerSession] = 2
        try await SessionWorld.with(limits: limits, services: [.echo()]) { world in
            let first = try await world.open()
            let second = try await world.open()
            #expect(await code { () async throws(AppServiceError) in try await world.open() } == .resourceLimitsExceeded)
            withExtendedLifetime((first, second)) {}
        }
    }

    @Test func runningServicesCountAsConnections() async throws {
        var limits = Limits()
        limits[.connectionsPerSession] = 2
        let goOn = Signal()
        let service = AppService("test") { connection, _ in
            _ = try await connection.closed
            await goOn.wait()
        }
        try await SessionWorld.with(limits: limits, services: [service]) { world in
            for _ in 0..<2 { try await world.open().close() }
            #expect(await code { () async throws(AppServiceError) in try await world.open() } == .resourceLimitsExceeded)
            goOn.happen()
            #expect(await Inventory.settled(world.targetSession).isEmpty)
            try await world.open().close()
        }
    }

    // MARK: Answers

    @Test func requestErrorsKeepTheirCodes() async throws {
        let service = AppService("test") { connection, _ in
            try await connection.respond { request in
                switch request.message["Type"]?.string {
                case "limit": throw AppServiceError(.resourceLimitsExceeded, message: "come back tomorrow")
                case "plain": throw Plain()
                case "impossible": return ["Date": .date(Date(timeIntervalSince1970: .infinity))]
                default: throw AppServiceError(.notSupported)
                }
            }
        }
        try await SessionWorld.with(services: [service]) { world in
            let connection = try await world.open()
            let error = await #expect(throws: AppServiceError.self) { try await connection.send(["Type": "limit"]) }
            #expect(error?.code == .resourceLimitsExceeded)
            #expect(error?.message == "come back tomorrow")
            #expect(await Self.send(connection, ["Type": "plain"]) == .failure)
            #expect(await Self.send(connection, ["Type": "impossible"]) == .invalidMessage)
            // A response that cannot be encoded is a failure.
            #expect(await Self.send(connection, ["Type": "other"]) == .failure)
        }
    }

    @Test func aDroppedRequestFails() async throws {
        let service = AppService("test") { connection, _ in
            for await request in connection.requests { _ = request.message }
        }
        try await SessionWorld.with(services: [service]) { world in
            let connection = try await world.open()
            #expect(await Self.send(connection) == .failure)
            #expect(await Self.send(connection) == .failure)
        }
    }

    // MARK: Cancelling

    @Test func requestIsCancelledBeforeItIsSent() async throws {
        let count = Shared(0)
        let service = AppService("test") { connection, _ in
            try await connection.respond { request in
                count.withLock { $0 += 1 }
                return request.message
            }
        }
        try await SessionWorld.with(services: [service]) { world in
            let connection = try await world.open()
            let task = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return await Self.send(connection)
            }
            #expect(await task.value == .cancelled)
            #expect(try await connection.send([:]) == [:])
            #expect(count.value == 1)
        }
    }

    /// A service that keeps every request until it is cancelled, and tells of both.
    static func waiting() -> (service: AppService, events: AsyncStream<String>) {
        let events = AsyncStream.makeStream(of: String.self)
        let service = AppService("test") { connection, _ in
            try await connection.respond { request in
                let over = Signal()
                request.onCancel { over.happen() }
                events.continuation.yield(request.deadline == nil ? "endless" : "request")
                await withTaskCancellationHandler {
                    await over.wait()
                } onCancel: {
                    over.happen()
                }
                events.continuation.yield("cancelled \(request.isCancelled)")
                await #expect(throws: AppServiceError.self) { try await request.respond([:]) }
                return [:]
            }
        }
        return (service, events.stream)
    }

    @Test func requestIsCancelledWhileItIsHandled() async throws {
        let (service, stream) = Self.waiting()
        try await SessionWorld.with(services: [service]) { world in
            var events = stream.makeAsyncIterator()
            let connection = try await world.open()
            let task = Task { await Self.send(connection) }
            #expect(await events.next() == "request")
            task.cancel()
            #expect(await task.value == .cancelled)
            #expect(await events.next() == "cancelled true")
            connection.close()
            #expect(await Inventory.settled(world.targetSession).isEmpty)
        }
    }

    @Test func timeoutCancelsTheHandler() async throws {
        let (began, cancelled) = (Shared(0), Shared(0))
        let service = AppService("test") { connection, _ in
            try await connection.respond { request in
                began.withLock { $0 += 1 }
                let over = Signal()
                request.onCancel { over.happen() }
                await over.wait()
                cancelled.withLock { $0 += request.isCancelled ? 1 : 0 }
                return [:]
            }
        }
        try await SessionWorld.with(services: [service]) { world in
            let connection = try await world.open()
            var timeout = Duration.milliseconds(20)
            // On a slow machine the time may be over before the service has begun.
            while began.value == 0 {
                #expect(await Self.send(connection, timeout: timeout) == .timedOut)
                timeout *= 2
            }
            connection.close()
            #expect(await Inventory.settled(world.targetSession).isEmpty)
            #expect(cancelled.value == began.value)
        }
    }

    @Test func cancellationAfterTheResponseHasNoEffect() async throws {
        try await SessionWorld.with(services: [.echo()]) { world in
            let connection = try await world.open()
            let answered = Signal()
            let proceed = Signal()
            let task = Task {
                let answer = try await connection.send(["Text": "first"])
                answered.happen()
                await proceed.wait()
                return answer
            }
            await answered.wait()
            task.cancel()
            #expect(try await task.value == ["Text": "first"])
            #expect(try await connection.send(["Text": "second"]) == ["Text": "second"])
            connection.close()
            #expect(await Inventory.settled(world.session).isEmpty)
        }
    }

    @Test func largeRequestIsCancelledWhileItIsSent() async throws {
        let message = try SessionExchangeTests.message(encodedBytes: 16 << 20)
        try await SessionWorld.with(services: [.echo()]) { world in
            let connection = try await world.open()
            for _ in 0..<4 {
                try await world.relay.hold(true)
                let task = Task { await Self.send(connection, message) }
                #expect(await Self.send(connection, timeout: .milliseconds(20)) == .timedOut)
                task.cancel()
                #expect(await task.value == .cancelled)
                try await world.relay.hold(false)
            }
            #expect(try await connection.send(["Text": "after"]) == ["Text": "after"])
            connection.close()
            #expect(await Inventory.settled(world.targetSession).isEmpty)
            await world.target.hasFree(128 << 20)
        }
    }

    // MARK: Closing

    @Test func serviceClosesTheConnection() async throws {
        let services = [
            AppService("done") { connection, _ in _ = await connection.requests.first { _ in true } },
            AppService("broken") { connection, _ in
                _ = await connection.requests.first { _ in true }
                throw Plain()
            },
            AppService("full") { connection, _ in
                _ = await connection.requests.first { _ in true }
                throw AppServiceError(.resourceLimitsExceeded, message: "no more today")
            },
        ]
        try await SessionWorld.with(services: services) { world in
            for (name, status) in [
                ("done", AppServiceClosedStatus.completed), ("broken", .cancelled), ("full", .resourceLimitsExceeded),
            ] {
                let connection = try await world.open(name)
                let code = await Self.send(connection)
                // The request is dropped, and the connection closed, in one go.
                #expect(code == .failure || code == .appServiceConnectionClosed)
                #expect(try await connection.closed.status == status)
            }
        }
    }

    @Test func callerClosesTheConnection() async throws {
        let closures = AsyncStream.makeStream(of: AppServiceClosure.self)
        let service = AppService("test") { connection, _ in
            try await connection.respond { $0.message }
            closures.continuation.yield(try await connection.closed)
        }
        try await SessionWorld.with(services: [service]) { world in
            var ends = closures.stream.makeAsyncIterator()
            let connection = try await world.open()
            connection.close()
            connection.close()
            #expect(await ends.next() == AppServiceClosure(.completed))
            #expect(try await connection.closed == AppServiceClosure(.completed))
            // A connection without references closes too.
            _ = try await world.open().send([:])
            #expect(await ends.next() == AppServiceClosure(.completed))
        }
    }

    @Test func closedConnectionsLeaveNoState() async throws {
        try await SessionWorld.with(services: [.echo()]) { world in
            for number in 0..<500 {
                let connection = try await world.open()
                let message: ValueSet = ["Number": .int(Int64(number))]
                #expect(try await connection.send(message) == message)
                connection.close()
            }
            #expect(await Inventory.settled(world.session).isEmpty)
            #expect(await Inventory.settled(world.targetSession).isEmpty)
        }
    }

    @Test func closedSessionsLeaveNoState() async throws {
        let relay = try await TestTunnelRelay()
        let (opener, target) = (try SessionSide(), try SessionSide(services: [.echo()]))
        weak var last: PeerSession?
        for _ in 0..<50 {
            let tunnel = relay.tunnel()
            async let accepted = target.connector.acceptSession(over: tunnel.target) { _ in true }
            let session = try await opener.connector.open(to: target.id, over: tunnel.opener)
            let connection = try await session.open(SessionWorld.info, timeout: .seconds(30))
            #expect(try await connection.send([:]) == [:])
            last = session
            await session.shutDown()
            #expect(try await accepted.ended() != nil)
        }
        try await relay.whenAllClosed()
        #expect(try await relay.counts.open == 0)
        // The event loop lets it go when it has seen that the stream is closed.
        while last != nil { try await Task.sleep(for: .milliseconds(1)) }
        await opener.hasFree(128 << 20)
        await relay.stop()
    }

    // MARK: The session's end

    @Test func drainingFinishesOpenConnections() async throws {
        try await SessionWorld.with(services: [.echo()]) { world in
            let connection = try await world.open()
            world.targetSession.drain()
            // The other side learns of it after a while.
            var isDraining = false
            while !isDraining {
                do throws(AppServiceError) {
                    try await world.open().close()
                } catch {
                    isDraining = error.cause is SessionEnding
                    #expect(isDraining)
                }
            }
            #expect(try await connection.send(["Text": "still"]) == ["Text": "still"])
            connection.close()
            #expect(await world.session.ended() == .drained)
            #expect(await world.targetSession.ended() == .drained)
            let late = await #expect(throws: AppServiceError.self) { try await world.open() }
            #expect(late?.cause is SessionEnding)
        }
    }

    @Test func shutdownFailsOpenRequests() async throws {
        let (service, stream) = Self.waiting()
        try await SessionWorld.with(services: [service, AppService("slow") { _, _ in try await Task.sleep(for: .seconds(3_600)) }]) {
            world in
            var events = stream.makeAsyncIterator()
            let connection = try await world.open()
            let call = Task { await Self.send(connection) }
            #expect(await events.next() == "request")
            let opening = Task { await code { () async throws(AppServiceError) in try await world.open("slow") } }
            while await world.targetSession.inventory()["services"] != 2 { await Task.yield() }
            await world.targetSession.shutDown()
            #expect(await call.value == .appServiceConnectionClosed)
            #expect(await opening.value == .appUnavailable)
            #expect(try await connection.closed.status == .cancelled)
            #expect(await events.next()?.hasPrefix("cancelled") == true)
            #expect(await Inventory.settled(world.targetSession).isEmpty)
        }
    }
}

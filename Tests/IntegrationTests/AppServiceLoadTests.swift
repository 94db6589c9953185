// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Many concurrent calls over one session through a real relay, and services that block.
@Suite(.timeLimit(.minutes(10))) struct AppServiceLoadTests {
    /// Releases all waiting tasks once the given number has arrived.
    private actor Gate {
        private let count: Int
        private var waiting: [CheckedContinuation<Void, Never>] = []

        init(_ count: Int) { self.count = count }

        func pass() async {
            await withCheckedContinuation { continuation in
                waiting.append(continuation)
                guard waiting.count == count else { return }
                for continuation in waiting { continuation.resume() }
            }
        }
    }

    @Test func oneSessionCarriesManyConcurrentConnections() async throws {
        let home = try await TestHome(networks: ["127.0.0.11"])
        let network = try await TestNetwork("127.0.0.11", to: home.relayd)
        let phone = try await home.guests(in: [network])[0]
        let pc = try await home.device("PC")
        let gate = Gate(1_000)
        var app = SessionTestApp.app()
        app.services += [
            AppService("gate") { connection, _ in
                try await connection.respond(concurrently: 1_000) { request in
                    await gate.pass()
                    return request.message
                }
            },
            // Accepts the connection and never reads a request.
            AppService("deaf") { connection, _ in _ = try await connection.closed },
        ]
        try await pc.platform.publish(app, for: pc.account)
        try await phone.sees("PC") { !$0.apps.isEmpty }
        let (platform, target) = (phone.platform, try pc.id)

        // A thousand calls are in flight on one connection: none is answered before all have arrived.
        let busy = try await platform.open("gate", on: target)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<1_000 {
                group.addTask {
                    let message: ValueSet = ["Number": .int(Int64(number))]
                    let answer = try await busy.send(message, timeout: .seconds(300))
                    #expect(answer == message)
                }
            }
            try await group.waitForAll()
        }

        // One service never answers, and another does not read: both together use far more than a window and all of their
        // assembly budget.
        let stuck = try await platform.open("never", on: target)
        let deaf = try await platform.open("deaf", on: target)
        let (small, large) = (try SessionTestApp.message(encodedBytes: 30 << 10), try SessionTestApp.message(encodedBytes: 12 << 20))
        let unanswered = Log<String>()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for index in 0..<30 {
                group.addTask {
                    let outcome = await SessionTestApp.outcome { () async throws(AppServiceError) in
                        try await (index < 10 ? stuck : deaf).send(index == 10 ? large : small, timeout: .seconds(600))
                    }
                    await unanswered.add(outcome)
                }
            }
            try await SessionTestApp.hasAsked(10, on: stuck)
            // Sixty-four other connections work at the same time.
            try await withThrowingTaskGroup(of: Void.self) { others in
                for number in 0..<64 {
                    others.addTask {
                        let connection = try await platform.open("echo", on: target)
                        for turn in 0..<10 {
                            let message: ValueSet = ["Number": .int(Int64(number * 10 + turn))]
                            #expect(try await connection.send(message, timeout: .seconds(300)) == message)
                        }
                        if number == 0 { #expect(try await connection.send(large, timeout: .seconds(300)) == large) }
                    }
                }
                try await others.waitForAll()
            }
            #expect(await unanswered.entries.isEmpty)
            stuck.close()
            deaf.close()
            try await group.waitForAll()
        }
        #expect(Set(await unanswered.entries) == ["appServiceConnectionClosed"])
        // Everything used one tunnel.
        #expect(try await network.tunnels == 1)
        await phone.platform.shutdown()
        await pc.platform.shutdown()
        try await network.stop()
    }

    @Test func callIsCancelledBeforeDuringAndAfterItRuns() async throws {
        let home = try await TestHome()
        let (phone, pc) = (try await home.device("Phone"), try await home.device("PC"))
        let says = Log<String>()
        let service = AppService("watched") { connection, _ in
            try await connection.respond { request in
                let left = request.deadline.map { ContinuousClock.now.duration(to: $0) }
                guard request.message["Wait"] != nil else {
                    // 15 min, minus the elapsed time.
                    let isCarried = left.map { $0 > .seconds(600) && $0 <= .seconds(900) } ?? false
                    return ["Deadline": .bool(isCarried)]
                }
                await says.add("began")
                try? await Task.sleep(for: .seconds(86_400))
                await says.add(request.isCancelled ? "cancelled" : "not cancelled")
                return [:]
            }
        }
        try await pc.platform.publish(RemoteSystemAppRegistration(appID: SessionTestApp.appID, services: [service]), for: pc.account)
        try await phone.sees("PC") { !$0.apps.isEmpty }
        let connection = try await phone.platform.open("watched", on: try pc.id)
        func call(_ message: ValueSet, timeout: Duration = .seconds(900)) -> Task<String, Never> {
            Task {
                await SessionTestApp.outcome { () async throws(AppServiceError) in try await connection.send(message, timeout: timeout) }
            }
        }
        let before = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await SessionTestApp.outcome { () async throws(AppServiceError) in try await connection.send(["Wait": true]) }
        }
        #expect(await before.value == "cancelled")
        let during = call(["Wait": true])
        #expect(await says.wait(for: 1) == ["began"])
        during.cancel()
        #expect(await during.value == "cancelled")
        #expect(await says.wait(for: 2) == ["began", "cancelled"])
        // An expired time limit has the same result. On a slow machine it may expire before the service has started.
        #expect(await call(["Wait": true], timeout: .milliseconds(500)).value == "timedOut")
        let after = call([:])
        #expect(await after.value == "success")
        after.cancel()
        #expect(try await connection.send([:], timeout: .seconds(900)) == ["Deadline": true])
        #expect(await says.entries.filter { $0 == "not cancelled" }.isEmpty)
        await phone.platform.shutdown()
        await pc.platform.shutdown()
    }
}

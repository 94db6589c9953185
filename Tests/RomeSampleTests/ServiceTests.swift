// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import Testing

@testable import RomeSampleModel

/// The app services of two samples at a real relay.
@MainActor @Suite(.serialized, .timeLimit(.minutes(10))) struct SampleServiceTests {
    private func connected(_ bench: SampleBench) async throws -> (tv: SampleBench.Phone, ServiceConnection, Task<Void, Never>) {
        let tv = try await bench.joined("TV")
        let phone = try await bench.joined("Phone", by: tv)
        let row = try await phone.row("TV")
        let target = try #require(row.targets.first { $0.hasServices })
        let service = try #require(phone.sample.device?.service(target))
        await service.ping()
        #expect(service.answer?.nextStep == "Connect first.")
        let open = Task { await service.connect() }
        try await until { service.isConnected }
        return (tv, service, open)
    }

    @Test func pingIsAnswered() async throws {
        try await withBench { bench in
            let (tv, service, open) = try await connected(bench)
            #expect(service.state.title == "Connected" && service.state.reason.contains("TV"))
            await service.ping()
            #expect(service.answer?.title == "Pong", "\(String(describing: service.answer))")
            // A message needs no connection.
            service.text = "Grüße\u{0}\u{202E}"
            await service.sendText()
            #expect(service.answer?.title == "Answer" && service.answer?.reason == "Grüße\u{FFFD}\u{FFFD}")
            service.text = String(repeating: "a", count: Echo.most + 1)
            await service.sendText()
            // The code of a service's own error does not come back with a stateless message; its text does.
            #expect(service.answer?.kind == .problem && service.answer?.code == "failure")
            #expect(service.answer?.reason.contains("at most 1000 bytes") == true, "\(String(describing: service.answer))")
            service.disconnect()
            await open.value
            #expect(service.state.title == "Not connected" && !service.isConnected)
            try await until { tv.sample.hosting.log.entries.contains { $0.text == "Phone closed pingpong" } }
            let log = tv.sample.hosting.log.entries.map(\.text)
            #expect(log.contains("Phone opened pingpong") && log.contains("Phone sent a message to pingpong: answered"))
            #expect(log.contains("Phone sent a message to echo: answered") && log.contains("Phone sent a message to echo: refused"))
        }
    }

    @Test func connectionThatIsLostSaysSo() async throws {
        try await withBench { bench in
            let (tv, service, open) = try await connected(bench)
            await tv.sample.end()
            await open.value
            #expect(!service.isConnected && service.state.kind == .problem, "\(service.state)")
            #expect(!service.state.nextStep.isEmpty)
        }
    }

    @Test func screenThatGoesAwayCloses() async throws {
        try await withBench { bench in
            let (tv, service, open) = try await connected(bench)
            open.cancel()
            await open.value
            #expect(!service.isConnected)
            try await until { tv.sample.hosting.log.entries.contains { $0.text == "Phone closed pingpong" } }
        }
    }

    @Test func messageWaitsForADeviceThatSleeps() async throws {
        try await withBench { bench in
            let (tv, service, open) = try await connected(bench)
            service.disconnect()
            await open.value
            await tv.sample.suspend()
            async let answer: Void = service.sendText()
            try await until { service.answer?.title == "No answer yet" }
            await tv.sample.resume()
            await answer
            #expect(service.answer?.title == "Answer" && service.answer?.reason == "Hello", "\(String(describing: service.answer))")
        }
    }

    @Test func wrongMessagesAreRefused() async throws {
        #expect(throws: AppServiceError(.invalidMessage)) { try Ping.answer(["Type": "pong"]) }
        #expect(throws: AppServiceError(.invalidMessage)) { try Ping.answer([:]) }
        #expect(throws: AppServiceError(.invalidMessage)) { try Echo.answer(["request": 7]) }
        #expect(throws: AppServiceError(.messageTooLarge)) { try Echo.answer(Echo.message(String(repeating: "ä", count: 501))) }
        #expect(try Ping.answer(["Type": "ping", "TargetId": "x"]) == ["Type": "pong", "TargetId": "x"])
    }
}

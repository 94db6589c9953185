// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// What hostile clients do to the real service is not felt by others, whose launches go on meanwhile.
@Suite(.timeLimit(.minutes(10))) struct HostileClientTests {
    /// Two endpoints that launch on each other.
    private final class Pair {
        let (phone, pc): (WireEndpoint, WireEndpoint)
        private var number: UInt64 = 0

        init(at relayd: RelaydProcess) async throws {
            _ = try await relayd.run("account", "add", "Anna")
            (phone, pc) = (WireEndpoint("Phone", at: relayd), WireEndpoint("PC", at: relayd))
            for endpoint in [phone, pc] {
                try await endpoint.join(try await relayd.run("invite", "Anna"))
                try await endpoint.connect()
            }
            guard case .ok = try await pc.publish("org.example.player") else { throw WireEndpoint.Unexpected(message: "not published") }
        }

        func launch() async throws {
            number += 1
            let command = try phone.launch("film:\(number)", on: pc, number: number)
            guard case .ok = try await phone.send(command) else { throw WireEndpoint.Unexpected(message: "not accepted") }
            #expect(try await pc.handleNext() == .launch(.init(uri: try LaunchURI("film:\(number)"))))
            #expect(try await phone.outcome(of: command, target: try pc.record().payload) == .succeeded)
        }
    }

    private func relay(_ arguments: String...) async throws -> (RelaydProcess, Pair) {
        let relayd = try await RelaydProcess(arguments: arguments)
        _ = try await relayd.start()
        return (relayd, try await Pair(at: relayd))
    }

    private func open(_ relayd: RelaydProcess) async throws -> TestWebSocket {
        try await TestWebSocket.open(try await TestSocket(port: relayd.port), host: relayd.host)
    }

    @Test func oversizedMalformedAndSilentClientsDoNotDisturbOthers() async throws {
        let (relayd, pair) = try await relay("--limit", "helloSeconds=2")
        let silent = try await TestSocket(port: relayd.port)
        let upgraded = try await open(relayd)
        _ = try await upgraded.challenge()
        try await pair.launch()
        let hostile: [(UInt16, [UInt8])] = [
            // Announced, and judged before it comes.
            (1009, [0x81, 0xFF, 0, 0, 0, 0, 0x7F, 0xFF, 0xFF, 0xFF]),
            (1009, TestWebSocket.frame(opcode: 1, Array(repeating: 0x20, count: 33 << 10))),
            (1007, TestWebSocket.frame(opcode: 1, [0xFF, 0xFE])),
            (1007, TestWebSocket.frame(opcode: 1, Array(repeating: UInt8(ascii: "["), count: 30 << 10))),
            (1007, TestWebSocket.frame(opcode: 1, Array("{\"type\":\"hello\",\"version\":1e999}".utf8))),
            (1002, TestWebSocket.frame(opcode: 1, [], isMasked: false)),
        ]
        for (code, bytes) in hostile {
            let client = try await open(relayd)
            _ = try await client.challenge()
            try await client.socket.send(bytes)
            #expect(await client.closeCode() == code)
            try await pair.launch()
        }
        for text in ["\0\0\0\0", "GET / HTTP/9.9\r\n\r\n", String(repeating: "a", count: 100_000)] {
            let client = try await TestSocket(port: relayd.port)
            // It may be closed while this is still being written.
            try? await client.send(text)
            _ = await client.textUntilClosed()
            try await pair.launch()
        }
        #expect(await silent.textUntilClosed().isEmpty)
        #expect(await upgraded.closeCode() == 1008)
        try await pair.launch()
        #expect(try await relayd.stop() == 0)
    }

    /// Each byte arrives in time, but all of them together do not.
    @Test func slowWriterDoesNotDisturbOthers() async throws {
        let (relayd, pair) = try await relay("--limit", "helloSeconds=2")
        let slow = try await TestSocket(port: relayd.port)
        let request = Array(TestWebSocket.request(host: relayd.host).utf8)
        for byte in request where !slow.isClosed {
            try? await slow.send([byte])
            try await pair.launch()
            try await Task.sleep(for: .milliseconds(20))
        }
        #expect(slow.isClosed)
        #expect(await slow.textUntilClosed().isEmpty)
        #expect(try await relayd.stop() == 0)
    }

    @Test func slowReaderDoesNotDisturbOthers() async throws {
        let (relayd, pair) = try await relay("--outbound-bytes", "65536")
        let eve = WireEndpoint("Eve", at: relayd)
        _ = try await relayd.run("account", "add", "Bert")
        try await eve.join(try await relayd.run("invite", "Bert"))
        let channel = try await eve.open(role: .host)
        try await channel.socket.stopReading()
        // Every request is answered, and no answer is read.
        let questions = (1...2_000).flatMap { TestWebSocket.frame(opcode: 1, Array("{\"type\":\"question\",\"ref\":\($0)}".utf8)) }
        var isClosed = false
        for round in 0..<400 where !isClosed {
            do { try await channel.socket.send(questions) } catch { isClosed = true }
            if round % 10 == 0 { try await pair.launch() }
        }
        #expect(isClosed)
        try await pair.launch()
        #expect(try await relayd.stop() == 0)
    }

    @Test func unauthenticatedConnectionsDoNotBlockKnownDevices() async throws {
        let (relayd, pair) = try await relay("--limit", "helloSeconds=60")
        var sockets: [TestSocket] = []
        for _ in 0..<300 { sockets.append(try await TestSocket(port: relayd.port)) }
        let all = sockets
        #expect(try await eventually { all.count { $0.isClosed } == 300 - 256 })
        try await pair.launch()
        let late = try await TestSocket(port: relayd.port)
        #expect(await late.textUntilClosed().isEmpty)
        for socket in all { await socket.close() }
        // Their places are free again, as soon as the relay has seen them go.
        var isBack = false
        for _ in 0..<100 where !isBack {
            isBack = (try? await pair.pc.connect()) != nil
        }
        #expect(isBack)
        try await pair.launch()
        #expect(try await relayd.stop() == 0)
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if os(Linux)
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// A relay that may open few files, and unauthenticated connections that use all of them.
@Suite(.timeLimit(.minutes(10))) struct FileLimitTests {
    @Test func connectedEndpointsAreServedAtTheFileLimit() async throws {
        let log = FileManager.default.temporaryDirectory.appending(path: "log-\(UUID().uuidString)")
        #expect(FileManager.default.createFile(atPath: log.path, contents: nil))
        defer { try? FileManager.default.removeItem(at: log) }
        let relayd = try await RelaydProcess(arguments: ["--limit", "helloSeconds=600", "--log-level", "info"])
        relayd.openFiles = 200
        relayd.standardError = try FileHandle(forWritingTo: log)
        _ = try await relayd.start()
        for name in ["Anna", "Bert"] { _ = try await relayd.run("account", "add", name) }
        let late = try await Victim.endpoint("Late", of: "Bert", at: relayd)
        let victim = try await Victim.join(relayd)
        let vitals = Vitals(relayd, log: log)
        @Sendable func said() -> [Substring] { ((try? String(contentsOf: log, encoding: .utf8)) ?? "").split(separator: "\n") }
        #expect(said().count { $0.contains("may open few files") && $0.contains("200") } == 1)
        let port = relayd.port
        let (before, lines) = (vitals.openFiles, vitals.lines)
        // Half of the connections send nothing, half have upgraded. No address has too many.
        let idle = try await onThread {
            IdleSockets(
                try (0..<300).compactMap { number in
                    // On a busy machine this takes minutes, and the relay closes the channel of a silent endpoint.
                    if number.isMultiple(of: 5) { _ = try victim.ask(1, pause: .zero) }
                    let socket = RawSocket(port: port, from: Attack.Field.address(number), patience: 1)
                    if number.isMultiple(of: 2) { socket?.send(TestWebSocket.request(host: "127.0.0.1:\(port)")) }
                    return socket
                }
            )
        }
        #expect(idle.sockets.count > 200)
        // It says so once in a minute, and does not try again and again.
        #expect(try await eventually { said().count { $0.contains("new connections wait") } == 1 })
        let (start, busy) = (ContinuousClock.now, vitals.processorTime)
        try await Task.sleep(for: .seconds(2))
        #expect(vitals.processorTime - busy < (ContinuousClock.now - start) / 5)
        #expect(said().count { $0.contains("new connections wait") } == 1)
        _ = try await onThread { try victim.ask(50, pause: .zero) }
        // What is stored can be stored.
        for number in 0..<5 { try await onThread { try victim.publish(number) } }
        for socket in idle.sockets { socket.reset() }
        #expect(try await eventually { vitals.openFiles <= before })
        // The relay takes a second's rest when it can open no more.
        try await late.connect()
        _ = try await onThread { try victim.ask(1, pause: .zero) }
        #expect(vitals.logged(after: lines).most < UnderAttackTests.linesPerSecond)
        #expect(try await relayd.stop() == 0)
    }

    private struct IdleSockets: @unchecked Sendable {
        let sockets: [RawSocket]
        init(_ sockets: [RawSocket]) { self.sockets = sockets }
    }
}
#endif

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// Python's `websockets` and `wsproto`, which share nothing with this project, speak to a running relay.
@Suite(.timeLimit(.minutes(10))) struct WebSocketExchangeTests {
    private static let python = ProcessInfo.processInfo.environment["DEVICE_RELAY_PYTHON"]

    @Test(.enabled(if: python != nil, "scripts/test sets DEVICE_RELAY_PYTHON to a Python that has websockets and wsproto"))
    func independentImplementationsAgree() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        let script = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../scripts/websockets-exchange.py")
        let process = Process()
        process.executableURL = URL(filePath: try #require(Self.python))
        process.arguments = [script.standardizedFileURL.path, relayd.host]
        let status = try await withCheckedThrowingContinuation { continuation in
            process.terminationHandler = { continuation.resume(returning: $0.terminationStatus) }
            do { try ProcessStart.alone { try process.run() } } catch { continuation.resume(throwing: error) }
        }
        #expect(status == 0)
        #expect(try await relayd.stop() == 0)
    }
}

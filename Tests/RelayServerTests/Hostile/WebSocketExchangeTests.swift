// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayTesting
import Testing

/// Python's `websockets` and `wsproto`, which share nothing with this project, speak to a running relay.
@Suite(.timeLimit(.minutes(10)), .enabled(if: PythonScript.isAvailable, "scripts/test sets DEVICE_RELAY_PYTHON"))
struct WebSocketExchangeTests {
    @Test func independentImplementationsAgree() async throws {
        let relayd = try await RelaydProcess()
        _ = try await relayd.start()
        let script = try PythonScript("websockets-exchange.py", [relayd.host])
        #expect(try await script.end() == 0)
        #expect(try await relayd.stop() == 0)
    }
}

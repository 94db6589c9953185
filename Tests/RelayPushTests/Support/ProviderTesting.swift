// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOPosix
import RelayProtocol
import Testing

@testable import RelayPush

extension ProviderClient {
    /// A client that trusts a scripted provider.
    static func test(_ server: ScriptedServer, http1Only: Bool = false, timeout: Duration = .seconds(60)) throws -> ProviderClient {
        ProviderClient(
            http1Only: http1Only,
            group: MultiThreadedEventLoopGroup.singleton,
            roots: try server.roots,
            timeout: timeout
        )
    }
}

/// So short that a provider which never answers does not hold up the tests.
let shortTimeout = Duration.milliseconds(200)

/// One row of the table of outcomes.
struct Row: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let answer: ScriptedServer.Answer
    let outcome: PushOutcome

    init(_ name: String, _ answer: ScriptedServer.Answer, _ outcome: PushOutcome) {
        self.testDescription = name
        self.answer = answer
        self.outcome = outcome
    }
}

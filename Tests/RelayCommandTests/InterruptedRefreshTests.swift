// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// A provider with strict rotation: the loss of one answer to a refresh ends the login.
@Suite(
    .serialized,
    .timeLimit(.minutes(10)),
    .enabled(if: PythonScript.isAvailable, "scripts/test sets DEVICE_RELAY_PYTHON")
)
struct InterruptedRefreshTests {
    struct Provider: Decodable { var issuer: String }
    struct Refresh: Decodable { var refresh: String }

    @Test func refreshThatWasSentIsStoredBeforeTheProcessEnds() async throws {
        let desk = try TestDevice()
        let script = try PythonScript("strict-issuer.py", ["\(FreePort.take())", "relay-test"])
        let issuer = try await script.answer(Provider.self).issuer
        let account = try await TestAccount(
            issuers: #"{"embedded":false,"issuers":[{"issuer":"\#(issuer)","audience":"relay-test","autoProvision":true}]}"#
        )
        let login = try desk.start(
            "login",
            account.relay.origin,
            "--issuer",
            issuer,
            "--client-id",
            "relay",
            "--device",
            "--name",
            "Desk",
            "--json",
            "--yes"
        )
        _ = try await login.line()
        let signedIn = await login.finish()
        #expect(signedIn.status == 0, "\(signedIn.text)")
        try script.write("hold")

        for number in [SIGINT, SIGTERM, SIGHUP] {
            let command = try desk.start("devices", "--json")
            #expect(try await script.answer(Refresh.self).refresh == "held")
            command.send(number)
            // An impatient person.
            command.send(number)
            try script.write("answer")
            #expect(await command.finish().status == 128 + number)
        }
        let command = try desk.start("devices")
        #expect(try await script.answer(Refresh.self).refresh == "held")
        try script.write("answer")
        let output = await command.finish()
        #expect(output.status == 0, "\(output.errorText)")
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayAgent
import RelayTesting
import Testing

@Suite(.serialized, .timeLimit(.minutes(10))) struct CallTests {
    private static let appID = "com.example.photos"

    /// An app whose services cover all kinds of answers.
    private static let app = RemoteSystemAppRegistration(
        appID: appID,
        displayName: "Photos",
        services: [
            AppService("echo") { connection, _ in try await connection.respond { $0.message } },
            AppService("fail") { connection, _ in
                try await connection.respond { request in
                    guard let name = request.message["Code"]?.string, let code = codes[name] else { throw AppServiceError(.invalidMessage) }
                    throw AppServiceError(code, message: "as \(name)\u{1B}[31m")
                }
            },
            AppService("refuse") { _, _ in throw AppServiceError(.notAuthorized, message: "not on Sundays") },
            AppService("other", allowedApps: ["com.example.other"]) { connection, _ in try await connection.respond { $0.message } },
            AppService("silent") { connection, _ in
                try await connection.respond { _ in
                    try await Task.sleep(for: .seconds(600))
                    return [:]
                }
            },
            AppService("once") { connection, _ in
                for await request in connection.requests {
                    try await request.respond(["Last": true])
                    return
                }
            },
        ]
    )

    private static let codes = Dictionary(uniqueKeysWithValues: ExitStatus.calling.map { ("\($0.code)", $0.code) })

    private func world() async throws -> (account: TestAccount, desk: TestDevice, tv: TestApp) {
        let account = try await TestAccount()
        let desk = try await account.device(named: "Desk")
        return (account, desk, try await account.app(Self.app, on: "TV"))
    }

    private func failure(_ output: CommandOutput) throws -> (code: String?, message: String) {
        let error = try output.json["error"] as? [String: Any]
        #expect(error?["exit"] as? Int == Int(output.status))
        return (error?["code"] as? String, error?["message"] as? String ?? "")
    }

    @Test func aMessageIsAnswered() async throws {
        let (_, desk, tv) = try await world()
        let message =
            #"{"$$key":"$","Array":[1,2],"Date":{"$date":1767225600.5},"Double":3.0,"Int":3,"Set":{"a":{"$data":"AAEC"}},"Text":"é \u202e"}"#
        let answer = try await desk.relay("call", "TV/\(Self.appID)", "echo", message)
        #expect(answer.status == 0, "\(answer.errorText)")
        #expect(answer.error.isEmpty)
        #expect(try ValueSet(json: answer.text) == ValueSet(json: message))
        #expect(answer.text.contains(#""Double":3.0"#))
        #expect(!answer.text.contains("\u{202E}"))
        let object = try await desk.relay("call", "tv/\(Self.appID)", "echo", message, "--json").json
        #expect(object["app"] as? String == Self.appID)
        #expect(object["deviceName"] as? String == "TV")
        #expect((object["answer"] as? [String: Any])?["Int"] as? Int == 3)
        #expect(try await desk.relay("call", "TV/\(Self.appID)", "echo").output == ["{}"])
        await tv.platform.shutdown()
    }

    @Test func aMessageIsReadFromStandardInput() async throws {
        let (_, desk, tv) = try await world()
        let call = try desk.startReading("call", "TV/\(Self.appID)", "echo", "-")
        try call.write("{\"Lines\":\n")
        try call.write("  {\"$data\": \"\(Data(repeating: 7, count: 300 << 10).base64EncodedString())\"}}")
        try call.endInput()
        let output = await call.finish()
        #expect(output.status == 0)
        #expect(try ValueSet(json: output.text)["Lines"]?.data?.count == 300 << 10)
        await tv.platform.shutdown()
    }

    @Test func aStreamIsAnsweredInOrder() async throws {
        let (_, desk, tv) = try await world()
        let call = try desk.startReading("call", "TV/\(Self.appID)", "echo", "--stream")
        for number in 1...20 {
            try call.write("{\"Number\": \(number)}\n\n")
            // Each answer arrives before the next message is written.
            #expect(try await call.line() == "{\"Number\":\(number)}")
        }
        try call.write("{\"a\":1}\n{\"b\":2}\n{\"c\":3}")
        try call.endInput()
        let output = await call.finish()
        #expect(output.output == ["{\"a\":1}", "{\"b\":2}", "{\"c\":3}"])
        #expect(output.status == 0)
        await tv.platform.shutdown()
    }

    @Test func endlessInputIsTooLarge() async throws {
        let (_, desk, tv) = try await world()
        for how in ["-", "--stream"] {
            let call = #"exec "$0" call TV/\#(Self.appID) echo \#(how) --json --home "$1" < /dev/zero"#
            let output = try await RelayProcess(
                ["-c", call, Project.products.appending(path: "relay").path, desk.home],
                executable: URL(filePath: "/bin/sh"),
                environment: desk.environment
            ).finish()
            #expect(output.status == 2)
            #expect(try failure(output).code == "messageTooLarge")
        }
        await tv.platform.shutdown()
    }

    @Test func aStreamEndsWithTheFirstFailure() async throws {
        let (_, desk, tv) = try await world()
        let bad = try desk.startReading("call", "TV/\(Self.appID)", "echo", "--stream", "--json")
        try bad.write("{\"a\":1}\n{\"b\":}\n{\"c\":3}\n")
        let first = try JSON.object(try await bad.line())
        #expect((first["answer"] as? [String: Any])?["a"] as? Int == 1)
        let output = await bad.finish()
        #expect(output.status == 2)
        #expect(try failure(output).message.contains("line 2 of the input"))
        // The command notices that the service closes the connection without another line of input.
        let once = try desk.startReading("call", "TV/\(Self.appID)", "once", "--stream")
        try once.write("{}\n")
        #expect(try await once.line() == "{\"Last\":true}")
        #expect(await once.finish().status == 1)
        await tv.platform.shutdown()
    }

    /// One case for each exit status. Another test compares the complete table with the documentation.
    @Test func errorOfTheServiceDeterminesTheExitStatus() async throws {
        let (_, desk, tv) = try await world()
        let codes: [AppServiceError.Code] = [
            .failure, .invalidMessage, .authenticationError, .webServiceUnavailable, .disabledByPolicy, .timedOut,
        ]
        for code in codes {
            let output = try await desk.relay("call", "TV/\(Self.appID)", "fail", #"{"Code":"\#(code)"}"#, "--json")
            let told = try failure(output)
            #expect(told.code == "\(code)")
            #expect(output.status == ExitStatus.calling.first { $0.code == code }?.status.rawValue)
            #expect(told.message == "as \(code)\u{FFFD}[31m")
        }
        await tv.platform.shutdown()
    }

    @Test(
        arguments: [
            ("TV/com.example.photos", "refuse", 6, "notAuthorized", "not on Sundays"),
            ("TV/com.example.photos", "other", 6, "remoteSystemNotSupportedByApp", "allow"),
            ("TV/com.example.photos", "none", 4, "appServiceUnavailable", "it has echo, fail, once, other, refuse, silent"),
            ("TV/com.example.none", "echo", 4, "appUnavailable", "its apps: com.example.photos"),
            ("Radio/x", "echo", 4, "remoteSystemUnavailable", ""),
            ("TV/", "echo", 2, "appMissing", "com.example.photos"),
            ("TV", "none", 4, "appServiceUnavailable", "its apps: com.example.photos (echo, fail, once, other, refuse, silent)"),
            ("TV/com.example.photos", "silent", 8, "timedOut", ""),
        ]
    )
    func reasonForAFailedCallIsReported(target: String, service: String, status: Int32, code: String, message: String) async throws {
        let (_, desk, tv) = try await world()
        let output = try await desk.relay("call", target, service, "--json", "--timeout", status == 8 ? "3" : "30")
        #expect(output.status == status)
        let failure = try failure(output)
        #expect(failure.code == code)
        #expect(message.isEmpty || failure.message.contains(message), "\(failure.message)")
        await tv.platform.shutdown()
    }

    /// As `ping` and `launch` do.
    @Test func theOnlyAppWithTheServiceIsChosen() async throws {
        let (account, desk, tv) = try await world()
        let one = try await desk.relay("call", "TV", "echo", #"{"a": 1}"#, "--json")
        #expect(one.status == 0, "\(one.errorText)")
        #expect(try one.json["app"] as? String == Self.appID)
        // A second app with the service makes the choice the user's.
        let second = RemoteSystemAppRegistration(
            appID: "com.example.second",
            services: ["ping", "echo"].map { name in AppService(name) { connection, _ in try await connection.respond { $0.message } } }
        )
        try await tv.platform.publish(second, for: ConnectedDevicesAccount(id: "me"))
        let two = try await desk.relay("call", "TV", "echo", "--json")
        #expect(two.status == 2)
        let failure = try failure(two)
        #expect(failure.code == "ambiguous")
        #expect(failure.message.contains("TV/com.example.photos or TV/com.example.second"), "\(failure.message)")
        #expect(try await desk.relay("call", "TV", "ping", "--json").json["app"] as? String == "com.example.second")
        await tv.platform.shutdown()
        _ = account
    }

    @Test func newOrUnreachableCallerGetsTheReason() async throws {
        let (account, desk, tv) = try await world()
        let late = try await account.device(named: "Late")
        let refused = try await late.relay("call", "TV/\(Self.appID)", "echo", "--json")
        #expect(refused.status == 6)
        #expect(try failure(refused).code == "notAuthorized")
        await tv.platform.shutdown()
        let away = try await desk.relay("call", "TV/\(Self.appID)", "echo", "--timeout", "1", "--json")
        #expect(away.status == 5, "\(away.text)")
        #expect(try failure(away).code == "remoteSystemUnavailable")
        _ = try await account.relay.stop()
        let alone = try await desk.relay("call", "TV/\(Self.appID)", "echo", "--json")
        #expect(alone.status == 5)
        #expect(try failure(alone).code == "relayUnreachable")
    }

    @Test(
        arguments: [
            ("{\"a\": nul}", "not JSON", "line 1, column 10"), ("{\"a\":\n  [1, \"b\"]}", "one kind", "line 2, column 7"),
            ("[1]", "JSON object", "column 1"),
            ("{\"a\": null}", "null", "in a,"), ("{\"a\": {\"b\": {\"$date\": \"x\"}}}", "tag", "in a.b"), ("{", "too early", "column 2"),
            ("{} {}", "follows", "column 4"), ("{\"é\": 1, \"é\": 2}", "twice", "column 10"),
        ]
    )
    func invalidMessageIsReportedWithItsPlace(json: String, what: String, place: String) async throws {
        // The input is checked before the network and the home are used.
        let output = try await TestDevice().relay("call", "TV/x", "echo", json)
        #expect(output.status == 2)
        #expect(output.errorText.contains(what) && output.errorText.contains(place), "\(output.errorText)")
    }
}

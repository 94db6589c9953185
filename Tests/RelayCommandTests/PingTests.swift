// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayTesting
import Testing

@testable import RelayAgent

@Suite(.serialized, .timeLimit(.minutes(10))) struct PingTests {
    @Test func hostAnswersPings() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let host = try await tv.host()
        let ping = try await desk.relay("ping", "tv", "--count", "3", "--interval", "0")
        #expect(ping.status == 0, "\(ping.errorText)")
        #expect(ping.output.count == 5)
        for (number, line) in zip(1...3, ping.output) {
            #expect(line.wholeMatch(of: /answer from TV: number (\d), \d+\.\d{3} ms/)?.1 == "\(number)")
        }
        #expect(ping.output[3] == "3 sent, 3 received, 0 lost")
        #expect(ping.output[4].wholeMatch(of: /min\/avg\/max\/stddev (\d+\.\d{3}\/){3}\d+\.\d{3} ms/) != nil)
        let times = ping.output[4].matches(of: /\d+\.\d{3}/).compactMap { Double($0.output) }
        #expect(times[0] <= times[1] && times[1] <= times[2])
        _ = host
    }

    @Test func namedAppAnswersPings() async throws {
        let account = try await TestAccount()
        let desk = try await account.device(named: "Desk")
        let app = RemoteSystemAppRegistration(appID: "com.example.other", services: [PingService.service])
        let tv = try await account.app(app, on: "TV")
        #expect(try await desk.relay("ping", "TV/com.example.other", "--count", "1").status == 0)
        // An app is found that is neither the agent nor a `relay host`.
        let unnamed = try await desk.relay("ping", "TV", "--count", "1", "--json")
        #expect(unnamed.status == 0, "\(unnamed.errorText)")
        #expect(try JSON.object(try #require(unnamed.output.first))["app"] as? String == "com.example.other")
        await tv.platform.shutdown()
    }

    @Test(arguments: [SIGINT, SIGTERM])
    func signalEndsPingWithASummary(signal: Int32) async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let host = try await tv.host()
        let ping = try desk.start("ping", "TV", "--json", "--interval", "0.1")
        for number in 1...3 {
            let event = try JSON.object(try await ping.line())
            #expect(event["event"] as? String == "answer")
            #expect(event["sequence"] as? Int == number)
        }
        ping.send(signal)
        let output = await ping.finish()
        #expect(output.status == 0)
        let sum = try JSON.object(try #require(output.output.last))
        #expect(sum["event"] as? String == "summary")
        #expect(sum["sent"] as? Int == sum["received"] as? Int)
        #expect(sum["lost"] as? Int == 0)
        _ = host
    }

    @Test func lostPingsAreCountedAndPingRecovers() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let first = try await tv.host()
        let ping = try desk.start("ping", "TV", "--json", "--interval", "0.1", "--timeout", "5")
        _ = try await ping.line { $0.contains(#""event":"answer""#) }
        first.send(SIGTERM)
        _ = await first.finish()
        let lost = try JSON.object(try await ping.line { $0.contains(#""event":"lost""#) })
        #expect(lost["code"] as? String != nil)
        let second = try await tv.host()
        _ = try await ping.line { $0.contains(#""event":"answer""#) }
        ping.send(SIGINT)
        let output = await ping.finish()
        #expect(output.status == 0)
        let sum = try JSON.object(try #require(output.output.last))
        let (sent, received, missing) = (sum["sent"] as? Int ?? 0, sum["received"] as? Int ?? 0, sum["lost"] as? Int ?? 0)
        #expect(received >= 2 && missing >= 1 && sent == received + missing)
        _ = second
    }

    @Test func exitStatusTellsWhyNothingAnswered() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        #expect(try await desk.relay("ping", "Radio").status == 4)
        let agent = try await tv.agent()
        // This device joined after the TV and is not confirmed there. The error is reported once and ends the command.
        let late = try await account.device(named: "Late")
        let refused = try await late.relay("ping", "TV", "--json")
        #expect(refused.status == 6)
        #expect(refused.output.count == 3)
        let failure = try JSON.object(try #require(refused.output.last))["error"] as? [String: Any]
        #expect(failure?["code"] as? String == "notAuthorized")
        agent.send(SIGTERM)
        _ = await agent.finish()
        // The error is reported at once, and nothing is sent.
        let away = try await desk.relay("ping", "TV", "--count", "2", "--interval", "0", "--timeout", "600")
        #expect(away.status == 5)
        #expect(away.output.isEmpty)
        #expect(away.errorText.contains("'TV' is not connected (switched off since "))
        #expect(try await desk.relay("ping", "TV", "--interval", "0").status == 2)
        _ = try await account.relay.stop()
        #expect(try await desk.relay("ping", "TV", "--count", "1").status == 5)
    }

    @Test func timesAreSummarized() {
        var times = TransitTimes()
        for time in [2.0, 4, 4, 4, 5, 5, 7, 9] { times.add(time) }
        times.addLost()
        #expect(times.sent == 9 && times.received == 8)
        #expect(times.minimum == 2 && times.maximum == 9)
        #expect(abs(times.average - 5) < 1e-9)
        #expect(abs(times.deviation - 2) < 1e-9)
    }
}

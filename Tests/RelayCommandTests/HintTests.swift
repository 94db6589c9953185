// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// The next step is a command that can be pasted.
@Suite(.serialized, .timeLimit(.minutes(10))) struct HintTests {
    @Test func invalidNameNamesTheCommandThatGivesOne() async throws {
        let account = try await TestAccount()
        let desk = try await account.device(named: "Desk")
        #expect(try await desk.relay("rename", "").errorText.contains("relay rename 'NEW NAME'"))
        #expect(try await TestDevice().relay("join", try await account.link(), "--name", "").errorText.contains("--name NAME"))
    }

    @Test func addressWithoutALinkLeadsToLogin() async throws {
        let output = try await TestDevice().relay("join", "https://relay.example")
        #expect(output.status == 2)
        #expect(output.errorText.contains("run: relay login https://relay.example"), "\(output.errorText)")
    }

    @Test func missingSchemeNamesTheSettingOnTheOtherDevice() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "TV"))
        let agent = try await tv.agent()
        let output = try await desk.relay("launch", "TV", "mailto:anna@example.com")
        #expect(output.status == 4)
        #expect(output.errorText.contains("add mailto to `schemes` below `open` in agent.yaml"), "\(output.errorText)")
        // No setting makes the agent open these.
        let never = try await desk.relay("launch", "TV", "javascript:alert(1)")
        #expect(never.status == 4)
        #expect(never.errorText.contains("no agent opens them") && !never.errorText.contains("agent.yaml"), "\(never.errorText)")
        _ = agent
    }

    @Test func callerThatIsNewThereGetsTheLineToPaste() async throws {
        let account = try await TestAccount()
        let tv = try await account.device(named: "TV")
        let agent = try await tv.agent("open:\n  schemes: [http, https, mailto]")
        let desk = try await account.device(named: "Desk")
        let facts = try await desk.relay("whoami", "--json").json
        let (endpoint, words) = (try #require(facts["endpoint"] as? String), try #require(facts["words"] as? String))
        for command in [["ping", "TV", "--count", "1"], ["call", "TV", "echo"], ["launch", "TV", "mailto:anna@example.com"]] {
            let output = try await desk.run(command)
            #expect(output.status == 6, "\(command): \(output.errorText)")
            #expect(output.errorText.contains("relay approve \(endpoint)") && output.errorText.contains(words), "\(output.errorText)")
        }
        // The line does what it says.
        #expect(try await tv.relay("approve", endpoint).status == 0)
        #expect(try await desk.relay("ping", "TV", "--count", "1").status == 0)
        _ = agent
    }

    @Test func sameNameIsSaidAndToldApart() async throws {
        let account = try await TestAccount()
        let first = try await account.device(named: "Desk")
        let second = try TestDevice()
        let joined = try await second.relay("join", try await account.link(), "--name", "desk")
        #expect(joined.status == 0)
        #expect(joined.errorText.contains("relay rename 'NEW NAME'"), "\(joined.errorText)")
        #expect(try await !second.relay("rename", "TV").errorText.contains("relay rename 'NEW NAME'"))
        #expect(try await second.relay("rename", "DESK").errorText.contains("relay rename 'NEW NAME'"))
        let (one, other) = (try await first.agent(), try await second.agent())
        let third = try await account.device(named: "Phone")
        let output = try await third.relay("launch", "desk", "https://films.example/1")
        #expect(output.status == 2)
        #expect(
            output.errorText.matches(of: /desktop, linux, joined \d+ s ago from 127\.0\.0\.1, online for \d+ s/).count == 2,
            "\(output.errorText)"
        )
        _ = (one, other)
    }

    @Test func listOfAllDevicesFitsATerminal() async throws {
        let account = try await TestAccount()
        let (desk, tv) = (try await account.device(named: "Desk"), try await account.device(named: "Living room PC"))
        let agent = try await tv.agent()
        let output = try await desk.relay("devices", "--all")
        #expect(output.status == 0)
        #expect(output.output.allSatisfy { $0.count <= 80 }, "\(output.text)")
        #expect(output.text.contains("Not started yet"))
        _ = agent
    }

    @Test func nullIsSaidHowToLeaveOut() async throws {
        let output = try await TestDevice().relay("call", "TV/x", "x", #"{"a": null}"#)
        #expect(output.status == 2)
        #expect(output.errorText.contains("leave the member out"), "\(output.errorText)")
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

/// `relay verify`: two people, or one person with two devices, compare a code.
@Suite(.serialized, .timeLimit(.minutes(10))) struct VerifyTests {
    @Test func bothDevicesPrintTheSameCodeAndConfirmNothing() async throws {
        let account = try await TestAccount()
        let (tv, phone) = (try await account.device(named: "TV"), try await account.device(named: "Phone"))
        let other = try await account.device(named: "Other")
        let id = try #require(try await phone.relay("whoami", "--json").json["endpoint"] as? String)
        let onTV = try await tv.relay("verify", "phone", "--json")
        let code = try #require(try onTV.json["code"] as? String)
        #expect(code.split { " -".contains($0) }.count == 10)
        #expect(try onTV.json["endpoint"] as? String == id)
        #expect(try onTV.json["verified"] as? Bool == false)
        #expect(try await phone.relay("verify", "TV", "--json").json["code"] as? String == code)
        #expect(try await tv.relay("verify", String(id.prefix(8))).output == code.split(separator: " ").map { "  \($0)" })
        // Each half of the code is what a device shows of itself.
        for device in [tv, phone] {
            let words = try #require(try await device.relay("whoami", "--json").json["words"] as? String)
            #expect(code.split(separator: " ").contains(Substring(words)))
        }
        // A device in the place of another one has another code.
        #expect(try await tv.relay("verify", "Other", "--json").json["code"] as? String != code)
        #expect(try await other.relay("verify", "TV", "--json").json["code"] as? String != code)
        let listed = try await tv.relay("devices", "--all", "--json").json["endpoints"] as? [[String: Any]] ?? []
        let new = listed.filter { $0["new"] as? Bool == true }.compactMap { $0["name"] as? String }
        #expect(Set(new) == ["Phone", "Other"])
        #expect(try await tv.relay("verify", "Nobody").status == 4)
        #expect(try await tv.relay("verify", "TV").status == 4)
    }

    #if os(Linux)
    @Test(arguments: ["y\n", "n\n", "\n"]) func personConfirmsEqualCodes(answer: String) async throws {
        let account = try await TestAccount()
        let (tv, phone) = (try await account.device(named: "TV"), try await account.device(named: "Phone"))
        let code = try #require(try await phone.relay("verify", "TV", "--json").json["code"] as? String)
        for (device, other) in [(tv, "phone"), (phone, "tv")] {
            let process = try device.startAtTerminal("verify", other)
            for words in code.split(separator: " ") { _ = try await process.line { $0.contains("  \(words)") } }
            // The next step, as a command that the other device's shell runs.
            _ = try await process.line { $0.contains("Run there: relay verify \(other == "tv" ? "Phone" : "TV")") }
            _ = try await process.line { $0.contains("[y/N]") }
            try process.write(answer)
            let output = await process.finish()
            #expect(output.status == (answer == "y\n" ? 0 : 1), "\(output.text)")
            #expect(output.text.contains("nothing was confirmed") == (answer != "y\n"))
            let verified = try await device.relay("verify", other, "--json").json["verified"] as? Bool
            #expect(verified == (answer == "y\n"))
        }
    }
    #endif
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// Each command that takes a link is given the links of the others.
@Suite(.timeLimit(.minutes(5))) struct WrongLinkTests {
    private static let relay = String(repeating: "a", count: 51) + "q"
    private static let secret = "c2VjcmV0LW9mLXRoZS1saW5r"
    /// The command of each link, with the link.
    private static let links = [
        "relay join": "https://192.0.2.1:8443/#relay=\(relay),invite=\(secret)",
        "relay account password": "https://192.0.2.1:8443/auth/setup?token=\(secret)#relay=\(relay)",
        "relay pair --enter": "device-relay-pair:#id=\(relay),secret=\(secret),at=192.0.2.1-7",
    ]

    @Test(arguments: links.keys.sorted()) func wrongLinkNamesItsCommandAndIsNotRepeated(owner: String) async throws {
        let link = try #require(Self.links[owner])
        let commands = [["join", "-"], ["account", "password", "-"], ["pair", "--enter"], ["login", link], ["login", "<\(link)>"]]
        for command in commands where owner != "relay " + command.filter({ $0 != "-" }).joined(separator: " ") {
            let device = try TestDevice()
            let process = try device.startReading(command + ["--json"])
            if command.first != "login" { try process.write(link + "\n") }
            try process.endInput()
            let output = await process.finish()
            #expect(output.status == 2, "\(command): \(output.text)")
            let error = try output.json["error"] as? [String: Any]
            #expect(error?["code"] as? String == "linkInvalid", "\(command): \(output.text)")
            #expect((error?["message"] as? String)?.hasSuffix("by: \(owner)") == true, "\(command): \(output.text)")
            #expect(!output.text.contains(Self.secret), "\(command)")
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayTesting
import Testing

/// A home that was copied, as a cloned machine has it: two agents of one device.
@Suite(.timeLimit(.minutes(20))) struct CopiedHomeTests {
    /// The agents take the place from each other once a minute, later less often. Each of them, the doctor and the other devices say why.
    @Test func copyIsNamedOnAllSides() async throws {
        let account = try await TestAccount()
        let phone = try await account.device(named: "Phone")
        let (desk, clone) = (try await account.device(named: "Desk"), try TestDevice())
        try FileManager.default.removeItem(at: clone.directory)
        try FileManager.default.copyItem(at: desk.directory, to: clone.directory)

        func isTakeover(_ line: String, pause: Int) -> Bool {
            line.contains("a copy of this device's data is used") && line.contains("trying again in \(pause) min")
        }
        let first = try await desk.agent()
        let second = try await clone.agent()
        _ = try await first.errorLine { isTakeover($0, pause: 1) }
        // A process that was replaced, and ends, says nothing about a copy. One that comes back does.
        #expect(try await !phone.relay("devices").text.contains("it was copied"))
        _ = try await second.errorLine { isTakeover($0, pause: 1) }
        #expect(try await phone.relay("devices").text.contains("Online from two places: it was copied"))
        for device in [desk, clone] {
            let doctor = try await device.relay("doctor").text
            // The one that is connected is told by the relay, the other one knows it.
            let isNamed = doctor.contains("used in two places") || doctor.contains("a copy of this device's data is used")
            #expect(isNamed && doctor.contains("relay invite"), "\(doctor)")
        }
        guard Sweep.isFull else { return }
        _ = try await first.errorLine { isTakeover($0, pause: 2) }
        _ = try await second.errorLine { isTakeover($0, pause: 2) }
    }
}

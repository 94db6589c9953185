// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay

/// Renames this device.
package struct Rename: DeviceCommand {
    var name: String

    package init(name: String) throws { self.name = try Membership.checked(name, otherwise: "relay rename 'NEW NAME'") }

    package struct Result: AgentResult {
        package var name: String
        /// Whether the relay has the new name, and so other devices show it.
        package var published: Bool
        var namesake: String?

        enum CodingKeys: CodingKey { case name, published }

        package func lines(_ style: Style) -> [String] { ["this device is now \(style.show(name, .strong))"] }

        package var notes: [String] {
            (published ? [] : ["the relay does not know it yet: it gets the name on the next connection"]) + [namesake].compactMap(\.self)
        }
    }

    package func run(on local: LocalDevice) async throws -> Result {
        var membership = try local.home.membership()
        membership.name = name
        try? await local.waitForDirectory()
        let isPublished = try await local.platform.rename(name)
        try local.home.store(membership)
        return Result(name: name, published: isPublished, namesake: local.namesake(name))
    }
}

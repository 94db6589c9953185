// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay

/// Renames this device.
package struct Rename: Sendable {
    var name: String

    package init(name: String) { self.name = name }

    package struct Result: AgentResult {
        package var name: String
        /// Whether the relay has the new name, and so other devices show it.
        package var published: Bool

        package func lines(_ style: Style) -> [String] { ["this device is now \(style.show(name, .strong))"] }
    }

    package func run(_ context: AgentContext) async throws -> Result {
        var membership = try context.home.membership()
        membership.name = try Membership.checked(name, otherwise: "relay rename 'NEW NAME'")
        return try await context.withAccount { local in
            try? await local.waitForDirectory()
            let isPublished = try await local.platform.rename(membership.name)
            try context.home.store(membership)
            if !isPublished, !context.console.isJSON {
                context.console.note("the relay does not know it yet: it gets the name on the next connection")
            }
            local.noteNamesakes()
            return Result(name: membership.name, published: isPublished)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The environment of the programs that the agent starts: not all that the agent has, in which there may be secrets, but what programs
/// need to work as the person's own.
struct ProgramEnvironment: Hashable, Sendable {
    private static let names: Set<String> = ["PATH", "HOME", "LANG", "LANGUAGE", "USER", "LOGNAME", "SHELL", "TZ", "TMPDIR"]
    private static let prefixes = ["LC_", "XDG_"]
    /// Of the person's session with a display, for what shows something.
    private static let desktopNames: Set<String> = [
        "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "DESKTOP_SESSION", "GNOME_DESKTOP_SESSION_ID",
        "KDE_FULL_SESSION", "KDE_SESSION_VERSION", "BROWSER",
    ]

    /// What else the settings name.
    var more: Set<String> = []
    /// The agent's own.
    var own = ProcessInfo.processInfo.environment

    /// For one run of a program.
    func variables(forDesktop: Bool, adding: [String: String] = [:], _ mark: ProgramMark? = nil) -> [String: String] {
        var variables = own.filter { name, _ in
            Self.names.contains(name) || more.contains(name) || Self.prefixes.contains { name.hasPrefix($0) }
                || forDesktop && Self.desktopNames.contains(name)
        }
        variables.merge(adding) { _, new in new }
        if let mark { variables[ProgramMark.variable] = mark.text }
        return variables
    }
}

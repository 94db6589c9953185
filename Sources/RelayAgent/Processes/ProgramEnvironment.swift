// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// The environment of programs that the agent starts. It contains what programs need to run as the user, and leaves out
/// the rest of the agent's environment, which may hold secrets.
struct ProgramEnvironment: Hashable, Sendable {
    private static let names: Set<String> = ["PATH", "HOME", "LANG", "LANGUAGE", "USER", "LOGNAME", "SHELL", "TZ", "TMPDIR"]
    private static let prefixes = ["LC_", "XDG_"]
    /// Variables of the graphical session, for programs that show something.
    private static let desktopNames: Set<String> = [
        "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "DESKTOP_SESSION", "GNOME_DESKTOP_SESSION_ID",
        "KDE_FULL_SESSION", "KDE_SESSION_VERSION", "BROWSER",
    ]

    /// Names of further variables, from the settings.
    var more: Set<String> = []
    /// The environment of the agent.
    var own = ProcessInfo.processInfo.environment

    /// The environment of one program run.
    func variables(forDesktop: Bool, adding: [String: String] = [:], _ mark: ProgramRunID? = nil) -> [String: String] {
        var variables = own.filter { name, _ in
            Self.names.contains(name) || more.contains(name) || Self.prefixes.contains { name.hasPrefix($0) }
                || forDesktop && Self.desktopNames.contains(name)
        }
        variables.merge(adding) { _, new in new }
        if let mark { variables[ProgramRunID.variable] = mark.text }
        return variables
    }
}

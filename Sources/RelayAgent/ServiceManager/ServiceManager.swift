// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The system's service manager: systemd's user manager, or launchd.
package enum ServiceManager: Sendable {
    case systemd
    case launchd

    package static var own: ServiceManager {
        #if canImport(Darwin)
        .launchd
        #else
        .systemd
        #endif
    }

    /// The settings of the service.
    package struct Settings: Hashable, Sendable {
        /// An absolute path, like all paths here.
        package var executable: String
        package var home: String
        /// The account's name in the home; `nil` for the one that commands use when the agent starts.
        package var account: String?
        package var configuration: String?
        /// The directory of the device's key, if it is not the default one.
        package var configurationHome: String?
        /// Whether the user has a graphical session, which opening URIs requires.
        package var isGraphical: Bool

        var arguments: [String] {
            [executable, "agent", "--home", home] + (account.map { ["--profile", $0] } ?? [])
                + (configuration.map { ["--config", $0] } ?? [])
        }
    }

    static let unit = "device-relay-agent.service"
    static let label = AgentConfiguration.appID

    /// The path of the service description.
    func file(home: String, configurationHome: String?) -> String {
        switch self {
        case .systemd: (configurationHome ?? home + "/.config") + "/systemd/user/" + Self.unit
        case .launchd: home + "/Library/LaunchAgents/\(Self.label).plist"
        }
    }

    package func description(of settings: Settings) -> String {
        switch self {
        case .systemd: Self.systemdUnit(settings)
        case .launchd: Self.propertyList(settings)
        }
    }

    /// The commands that load and start the service, or unload it.
    func commands(installing: Bool, file: String, user: UInt32) -> [[String]] {
        switch (self, installing) {
        case (.systemd, true): [["systemctl", "--user", "daemon-reload"], ["systemctl", "--user", "enable", "--now", Self.unit]]
        case (.systemd, false): [["systemctl", "--user", "disable", "--now", Self.unit]]
        case (.launchd, true): [["launchctl", "bootstrap", "gui/\(user)", file]]
        case (.launchd, false): [["launchctl", "bootout", "gui/\(user)/\(Self.label)"]]
        }
    }

    // MARK: systemd

    private static func systemdUnit(_ settings: Settings) -> String {
        let target = settings.isGraphical ? "graphical-session.target" : "default.target"
        let environment = settings.configurationHome.map { ["Environment=" + quoted("XDG_CONFIG_HOME=\($0)", isCommand: false)] } ?? []
        return
            ([
                "[Unit]", "Description=Device Relay agent: opens and answers what your other devices ask for",
            ] + (settings.isGraphical ? ["After=\(target)", "PartOf=\(target)"] : []) + [
                "", "[Service]", "ExecStart=" + settings.arguments.map { quoted($0, isCommand: true) }.joined(separator: " "),
                "# A minimal system has no program `kill`.", "ExecReload=/bin/sh -c \"kill -HUP $MAINPID\"",
            ] + environment + [
                "Restart=on-failure", "RestartSec=5",
                "# A restart does not repair wrong settings or a device that has to join again.", "RestartPreventExitStatus=2 3",
                "# The programs that the agent opened keep running when it stops.", "KillMode=process", "", "[Install]",
                "WantedBy=\(target)", "",
            ]).joined(separator: "\n")
    }

    /// Quotes a word for systemd (systemd.syntax(7), and specifiers).
    private static func quoted(_ text: String, isCommand: Bool) -> String {
        var result = "\""
        for character in text {
            switch character {
            case "\\", "\"": result += "\\\(character)"
            case "%": result += "%%"
            // Only command lines expand variables.
            case "$" where isCommand: result += "$$"
            case "\n": result += "\\n"
            default: result.append(character)
            }
        }
        return result + "\""
    }

    // MARK: launchd

    private static func propertyList(_ settings: Settings) -> String {
        let arguments = settings.arguments.map { "        <string>\(escaped($0))</string>" }.joined(separator: "\n")
        return """
            <?xml version="1.0" encoding="UTF-8"?>
            <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
            <plist version="1.0">
            <dict>
                <key>Label</key>
                <string>\(label)</string>
                <key>ProgramArguments</key>
                <array>
            \(arguments)
                </array>
                <key>RunAtLoad</key>
                <true/>
                <key>KeepAlive</key>
                <dict>
                    <key>SuccessfulExit</key>
                    <false/>
                </dict>
                <key>AbandonProcessGroup</key>
                <true/>
            </dict>
            </plist>

            """
    }

    private static func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Configuration
import Foundation
import ProgramTexts
import RelayComposition
import RelayProtocol
import RelayServer
import RelayStorage

/// Which relay a command is about. The other settings come from the environment and the file.
struct DataDirectoryOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            localized(
                "A JSON file with settings, such as {\"listen\": [\"[::]:8443\"]}. "
                    + "(environment: RELAYD_CONFIG)"
            ),
            valueName: "file"
        )
    )
    var config: String?

    @Option(
        help: ArgumentHelp(
            localized(
                "The directory for the keys and databases. Default: ~/.local/share/relayd. "
                    + "(RELAYD_DATA_DIRECTORY)"
            ),
            valueName: "directory"
        )
    )
    var dataDirectory: String?

    @Option(
        help: ArgumentHelp(
            localized(
                "Where the databases are: sqlite (the default) for files in the data directory, or the URI of a PostgreSQL database, such as "
                    + "postgres://relayd@db.example/relay, which several nodes share. (RELAYD_STORE)"
            ),
            valueName: "store"
        )
    )
    var store: String?

    /// Merges the settings of flags, environment and file.
    func read(
        environment: [String: String] = ProcessInfo.processInfo.environment,
        flags: [AbsoluteConfigKey: ConfigValue] = [:]
    ) throws -> RelayConfiguration {
        try RelaySetting.check(environment: environment.keys)
        var flags = flags
        if let dataDirectory {
            flags[AbsoluteConfigKey(RelaySetting.dataDirectory.key)] = ConfigValue(.string(dataDirectory), isSecret: false)
        }
        if let store { flags[AbsoluteConfigKey(RelaySetting.store.key)] = ConfigValue(.string(store), isSecret: false) }
        var providers: [any ConfigProvider] = [
            InMemoryProvider(name: "flags", values: flags),
            EnvironmentVariablesProvider(environmentVariables: environment).prefixKeys(with: "relayd"),
        ]
        if let path = config ?? environment[RelaySetting.fileVariable] {
            providers.append(InMemoryProvider(name: "file", values: try SettingsFile(path: path).values))
        }
        return try RelayConfiguration(reading: ConfigReader(providers: providers)) { () throws(ConfigurationError) in
            guard let home = HomeDirectory.path(environment: environment) else {
                throw ConfigurationError(
                    "the home folder of this user is not known, so neither is the data directory: name it with --data-directory, or set HOME"
                )
            }
            return home + "/.local/share/relayd"
        }
    }
}

/// The options of commands that print a link to the relay.
struct LinkOptions: ParsableArguments {
    @OptionGroup var directory: DataDirectoryOptions

    @Option(
        help: ArgumentHelp(localized("The relay's public URL in the link. Default: where the relay runs, or last ran."), valueName: "url")
    )
    var url: String?

    /// The settings of the command.
    func read() throws -> RelayConfiguration {
        var flags: [AbsoluteConfigKey: ConfigValue] = [:]
        if let url { flags[AbsoluteConfigKey(RelaySetting.urls.key)] = ConfigValue(.stringArray([url]), isSecret: false) }
        return try directory.read(flags: flags)
    }
}

extension RelayConfiguration {
    /// The relay's URL for a link. Says on standard error if no relay runs there.
    /// - Parameter use: `.made` if the command makes the data directory afterwards.
    func announcedLinkPlace(_ use: DataDirectory.Use = .existing) throws -> LinkPlace {
        if use == .existing { _ = try DataDirectory(dataDirectory, use) }
        let (place, note) = try linkOrigin()
        if let note { StandardStream.note("relayd: \(note)") }
        return place
    }

    /// A set-up link as its owner needs it. Says on standard error how it is used where no browser opens it.
    func announced(_ link: Secret<String>, at place: LinkPlace) throws -> String {
        let shown = place.setUp(link, at: try RelayKey.load(in: dataDirectory).id).exposed
        if place.showsOwnKey { StandardStream.note("relayd: \(LinkText.forTerminal)") }
        return shown
    }
}

/// What operators are told about links of a relay that shows the certificate of its own key.
enum LinkText {
    /// How browsers get a certificate.
    static let browsers =
        "browsers do not accept the certificate of the relay's own key; docs/https.md says how Caddy in front of the relay gives them one"
    static let forTerminal = "the owner gives this link to `relay account password`; \(browsers)"
}

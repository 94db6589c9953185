// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Foundation
import RelayProtocol
import RelayServer
import Testing

@testable import relayd

/// Every documented setting is read from every source, and everything else is rejected.
@Suite struct SettingsTests {
    static func read(_ flags: [String] = [], environment: [String: String] = [:], file: String? = nil) throws -> RelayConfiguration {
        guard let file else { return try ConfigurationOptions.parse(flags).read(environment: environment) }
        let path = FileManager.default.temporaryDirectory.path + "/relayd-\(UUID().uuidString).json"
        defer { try? FileManager.default.removeItem(atPath: path) }
        try Data(file.utf8).write(to: URL(filePath: path))
        return try ConfigurationOptions.parse(flags + ["--config", path]).read(environment: environment)
    }

    @Test(arguments: RelaySetting.allCases)
    func everySettingIsReadFromAllSources(setting: RelaySetting) throws {
        // These two settings are only valid together.
        let partner: RelaySetting? =
            switch setting {
            case .certificateFile: .keyFile
            case .keyFile: .certificateFile
            default: nil
            }
        let all = [setting] + (partner.map { [$0] } ?? [])
        let sample = SettingSample(of: setting)
        #expect(!sample.isVisible(try Self.read()))
        #expect(sample.isVisible(try Self.read(all.flatMap { SettingSample(of: $0).flags })))
        let variables = all.map { ($0.variable, SettingSample(of: $0).variable) }
        #expect(sample.isVisible(try Self.read(environment: Dictionary(uniqueKeysWithValues: variables))))
        let members = all.map { "\"\($0.rawValue)\": \(SettingSample(of: $0).json)" }
        #expect(sample.isVisible(try Self.read(file: "{\(members.joined(separator: ", "))}")))
    }

    @Test(arguments: Limit.allCases)
    func everyLimitIsReadFromAllSources(limit: Limit) throws {
        let sample = SettingSample(of: limit)
        #expect(!sample.isVisible(try Self.read()))
        #expect(sample.isVisible(try Self.read(sample.flags)))
        #expect(sample.isVisible(try Self.read(environment: [RelaySetting.variable(of: limit): sample.variable])))
        #expect(sample.isVisible(try Self.read(file: "{\"limits\": {\"\(limit.rawValue)\": \(sample.json)}}")))
    }

    @Test func helpNamesExactlyTheSettings() throws {
        let help = Relayd.helpMessage(for: ServeCommand.self, columns: 1_000)
        let lines = help.split(separator: "\n").map { $0.drop { $0 == " " } }
        let named = Set(lines.filter { $0.hasPrefix("-") }.compactMap { line in line.split(separator: " ").first { $0.hasPrefix("--") } })
        let settings = RelaySetting.allCases.compactMap { SettingSample(of: $0).flags.first }
        #expect(named == Set((settings + ["--limit", "--config", "--help", "--version"]).map { Substring($0) }))
        for variable in RelaySetting.allCases.map(\.variable) + [RelaySetting.fileVariable] {
            #expect(help.contains("\(variable))") || help.contains("\(variable)=true)"))
        }
    }

    /// Flags override the environment, and the environment overrides the file.
    @Test func flagOverridesEnvironmentAndEnvironmentOverridesFile() throws {
        let configuration = try Self.read(
            ["--idle-seconds", "3"],
            environment: ["RELAYD_IDLE_SECONDS": "2", "RELAYD_DRAIN_SECONDS": "2"],
            file: #"{"idleSeconds": 1, "drainSeconds": 1, "unauthenticatedPerAddress": 1}"#
        )
        #expect(configuration.idleSeconds == 3)
        #expect(configuration.drainSeconds == 2)
        #expect(configuration.unauthenticatedPerAddress == 1)
    }

    @Test func fileThatIsNotJSONIsNamedWithThePlace() {
        let error = #expect(throws: ConfigurationError.self) { try Self.read(file: "{\n  \"idleSeconds\": 5,\n  \"drainSeconds\" 5\n}") }
        #expect(
            error?.description.hasSuffix(
                ".json: line 3, column 18: this is not JSON; a comma, a colon, a bracket, a quotation mark or a value is expected"
            ) == true,
            "\(String(describing: error))"
        )
    }

    /// Passwords and tokens would be sent in the clear.
    @Test func plainHTTPToOtherMachinesHasToBeAllowed() throws {
        for url in ["http://relay.example", "http://192.0.2.1:8080"] {
            let error = #expect(throws: ConfigurationError.self) { try Self.read(["--url", url]) }
            #expect(error?.description.contains("--allow-http") == true && error?.description.contains("https://") == true)
            #expect(try Self.read(["--url", url, "--allow-http"]).urls.count == 1)
        }
        for url in ["http://127.0.0.1:8080", "http://localhost", "http://[::1]:8080", "https://relay.example"] {
            #expect(try Self.read(["--url", url]).urls.count == 1)
        }
    }

    @Test func environmentCanNameTheFile() throws {
        #expect(throws: ConfigurationError("/nowhere.json cannot be read")) {
            try Self.read(environment: ["RELAYD_CONFIG": "/nowhere.json"])
        }
        #expect(throws: ConfigurationError("/nowhere.json cannot be read")) { try Self.read(["--config", "/nowhere.json"]) }
    }

    @Test(arguments: ["RELAYD_", "RELAYD_LISTN", "RELAYD_LIMITS", "RELAYD_LIMITS_COMMANDBYTES", "RELAYD_listen", "RELAYD_ALLOW_HTTP_"])
    func errorNamesAnUnknownVariable(variable: String) throws {
        let error = try #require(throws: ConfigurationError.self) { try Self.read(environment: [variable: "1"]) }
        #expect(error.description.hasPrefix("\(variable):"))
        // Variables with other prefixes are ignored.
        _ = try Self.read(environment: ["RELAY_LISTN": "1", "MY_RELAYD_LISTN": "1"])
    }

    @Test(arguments: [
        (#"{"listn": "127.0.0.1:1"}"#, "listn:"), (#"{"data-directory": "/"}"#, "data-directory:"), (#"{"config": "/x.json"}"#, "config:"),
        (#"{"limits": {"commandByte": 1}}"#, "limits.commandByte:"), (#"{"limits.commandBytes": 1}"#, "limits.commandBytes:"),
        (#"{"limits": 1}"#, "limits:"), (#"{"limits": {"commandBytes": "many"}}"#, "limits.commandBytes:"),
        (#"{"limits": {"commandBytes": 0}}"#, "limits.commandBytes:"), (#"{"idleSeconds": 0}"#, "idleSeconds:"),
        (#"{"limits": {"commandBytes": 1073741825}}"#, "limits.commandBytes:"), (#"{"dataDirectory": ""}"#, "dataDirectory:"),
        (#"{"listen": []}"#, "listen:"), (#"{"tunnelListen": []}"#, "tunnelListen:"), (#"{"urls": []}"#, "urls:"),
        (#"{"idleSeconds": 1, "drainSeconds": 1, "idleSeconds": 2}"#, "idleSeconds: this setting is in the file twice"),
        (#"{"limits": {"uriBytes": 1}, "limits": {"uriBytes": 1}}"#, "limits: this setting is in the file twice"),
        (#"{"limits": {"uriBytes": 1, "uriBytes": 1}}"#, "limits.uriBytes: this setting is in the file twice"),
    ])
    func errorNamesTheInvalidMemberOfTheFile(file: String, name: String) throws {
        let error = try #require(throws: ConfigurationError.self) { try Self.read(file: file) }
        #expect(error.description.hasPrefix(name))
    }

    @Test(arguments: RelaySetting.allCases)
    func errorNamesTheMemberOfTheWrongType(setting: RelaySetting) throws {
        let own = SettingSample(of: setting).json
        for json in ["{}", "null", "1.5", "[1]", "[[]]", "true", "7", "\"-\""] where json != own {
            // Every text is a valid path, and this one is a name, too.
            let anyTexts: [RelaySetting] = [.dataDirectory, .certificateFile, .keyFile, .issuersFile, .pushAuthoritiesFile, .operatorName]
            if json == "\"-\"", anyTexts.contains(setting) { continue }
            let numbers: [RelaySetting] = [.tokenFailuresPerMinute, .tokenFailureAddresses, .outboundBytes, .idleSeconds, .drainSeconds]
            if json == "7", own == "7" || numbers.contains(setting) { continue }
            let error = try #require(throws: ConfigurationError.self, "\(json)") {
                try Self.read(file: "{\"\(setting.rawValue)\": \(json)}")
            }
            #expect(error.description.hasPrefix("\(setting.rawValue):"), "\(json)")
        }
    }

    @Test(arguments: RelaySetting.allCases)
    func errorNamesAnEmptyVariable(setting: RelaySetting) throws {
        let error = try #require(throws: ConfigurationError.self) { try Self.read(environment: [setting.variable: ""]) }
        #expect(error.description.hasPrefix("\(setting.rawValue):"))
    }

    @Test(arguments: ["", "[]", "{", "\"listen\"", "7"])
    func fileThatIsNotAnObjectIsAnError(file: String) {
        #expect(throws: ConfigurationError.self) { try Self.read(file: file) }
    }

    @Test(arguments: [
        ["--limit", "nothing=1"], ["--limit", "uriBytes"], ["--limit", "uriBytes=x"], ["--metrics-listen", "127.0.0.1:0"],
    ])
    func invalidFlagIsAnError(flags: [String]) {
        #expect(throws: ConfigurationError.self) { try Self.read(flags) }
    }

    @Test(arguments: ["commandBytes=524288", "replyBytes=524288", "appRegistrationBytes=524288", "appRegistrationsBytes=524288"])
    func limitBeyondAControlFrameIsAnError(limit: String) throws {
        let error = try #require(throws: ConfigurationError.self) { try Self.read(["--limit", limit]) }
        #expect(error.description.hasPrefix("limits: "))
        #expect(error.description.contains("raise controlFrameBytes"))
        #expect(try Self.read(["--limit", limit, "--limit", "controlFrameBytes=2097152"]).limits[.controlFrameBytes] == 2 << 20)
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Configuration
import Logging
import RelayProtocol
import RelayServer
import Testing

@Suite struct RelayConfigurationTests {
    static func read(environment: [String: String]) throws -> RelayConfiguration {
        let provider = EnvironmentVariablesProvider(environmentVariables: environment).prefixKeys(with: "relayd")
        return try RelayConfiguration(reading: ConfigReader(provider: provider), defaultDataDirectory: "/default")
    }

    @Test func withoutSettingsItIsSafe() throws {
        let configuration = try Self.read(environment: [:])
        #expect(configuration.listen == [ListenAddress(host: "127.0.0.1", port: 8080)])
        #expect(configuration.dataDirectory == "/default")
        #expect(!configuration.isInsecure)
        #expect(configuration.limits == Limits())
        #expect(configuration.strangersPerAddress == 256)
    }

    /// For every setting, how a value for it shows. What each then does is tested where it is done.
    static func effect(of setting: RelaySetting) -> (value: String, isVisible: @Sendable (RelayConfiguration) -> Bool) {
        switch setting {
        case .listen:
            (
                "[::1]:9000,0.0.0.0:9001",
                { $0.listen == [ListenAddress(host: "::1", port: 9000), ListenAddress(host: "0.0.0.0", port: 9001)] }
            )
        case .tunnelListen: ("[::1]:9000", { $0.tunnelAddresses == [ListenAddress(host: "::1", port: 9000)] })
        case .urls: ("https://relay.example", { $0.urls.map(\.description) == ["https://relay.example"] })
        case .dataDirectory: ("/somewhere", { $0.dataDirectory == "/somewhere" })
        case .certificateFile: ("/chain.pem", { $0.certificateFile == "/chain.pem" })
        case .keyFile: ("/key.pem", { $0.keyFile == "/key.pem" })
        case .insecure: ("true", { $0.isInsecure })
        case .strangersPerAddress: ("7", { $0.strangersPerAddress == 7 })
        case .outboundBytes: ("70000", { $0.outboundBytes == 70_000 })
        case .idleSeconds: ("3", { $0.idleSeconds == 3 })
        case .drainSeconds: ("2", { $0.drainSeconds == 2 })
        case .logLevel: ("debug", { $0.logLevel == .debug })
        }
    }

    @Test func tunnelsAreListenedForBesideTheRest() throws {
        func ports(_ environment: [String: String]) throws -> [String] {
            try Self.read(environment: environment).tunnelAddresses.map(\.description)
        }
        #expect(try ports([:]) == ["127.0.0.1:8081"])
        #expect(try ports(["RELAYD_LISTEN": "[::1]:443,127.0.0.1:0,127.0.0.1:65535"]) == ["[::1]:444", "127.0.0.1:0"])
        #expect(try ports(["RELAYD_TUNNEL_LISTEN": "off"]) == [])
        #expect(throws: ConfigurationError.self) { try ports(["RELAYD_TUNNEL_LISTEN": "on"]) }
    }

    @Test(arguments: RelaySetting.allCases)
    func everySettingIsRead(setting: RelaySetting) throws {
        let name = setting.rawValue.reduce(into: "RELAYD_") { name, character in
            if character.isUppercase { name += "_" }
            name += character.uppercased()
        }
        let (value, isVisible) = Self.effect(of: setting)
        var environment = [name: value]
        // These two belong together.
        if setting == .certificateFile { environment["RELAYD_KEY_FILE"] = "/key.pem" }
        if setting == .keyFile { environment["RELAYD_CERTIFICATE_FILE"] = "/chain.pem" }
        #expect(isVisible(try Self.read(environment: environment)))
        #expect(!isVisible(try Self.read(environment: [:])))
    }

    @Test(arguments: Limit.allCases)
    func everyLimitIsRead(limit: Limit) throws {
        let provider = InMemoryProvider(values: [AbsoluteConfigKey(RelaySetting.key(of: limit)): 12_345])
        let configuration = try RelayConfiguration(reading: ConfigReader(provider: provider), defaultDataDirectory: "/")
        #expect(configuration.limits[limit] == 12_345)
    }

    @Test func limitsAreReadFromTheEnvironment() throws {
        #expect(try Self.read(environment: ["RELAYD_LIMITS_COMMAND_BYTES": "77"]).limits[.commandBytes] == 77)
    }

    @Test(arguments: [
        ("RELAYD_LISTEN", "8080"), ("RELAYD_LISTEN", "host:port"), ("RELAYD_LISTEN", "::1:80"), ("RELAYD_LISTEN", "host:65536"),
        ("RELAYD_URLS", "relay.example"), ("RELAYD_URLS", "https://relay.example/path"), ("RELAYD_INSECURE", "maybe"),
        ("RELAYD_STRANGERS_PER_ADDRESS", "0"), ("RELAYD_STRANGERS_PER_ADDRESS", "many"), ("RELAYD_OUTBOUND_BYTES", "1"),
        ("RELAYD_IDLE_SECONDS", "-1"), ("RELAYD_LOG_LEVEL", "loud"), ("RELAYD_LIMITS_COMMAND_BYTES", "0"),
        ("RELAYD_CERTIFICATE_FILE", "/only/one"), ("RELAYD_KEY_FILE", "/only/one"),
    ])
    func aWrongValueIsNotTakenForAnother(name: String, value: String) {
        #expect(throws: ConfigurationError.self) { try Self.read(environment: [name: value]) }
    }

    @Test func plainHTTPNeedsLoopbackOrAWord() throws {
        let loopback = ListenAddress(host: "127.0.0.1", port: 1)
        let everywhere = ListenAddress(host: "0.0.0.0", port: 1)
        var configuration = RelayConfiguration(dataDirectory: "/")
        #expect(try configuration.security(of: loopback) == .plain)
        #expect(try configuration.security(of: ListenAddress(host: "::1", port: 1)) == .plain)
        #expect(try configuration.security(of: everywhere) == .ownKey)
        #expect(try configuration.security(of: ListenAddress(host: "127.0.0.1.example", port: 1)) == .ownKey)
        configuration.isInsecure = true
        #expect(try configuration.security(of: everywhere) == .plain)
        (configuration.certificateFile, configuration.keyFile) = ("/c", "/k")
        #expect(try configuration.security(of: loopback) == .files(certificate: "/c", key: "/k"))
    }
}

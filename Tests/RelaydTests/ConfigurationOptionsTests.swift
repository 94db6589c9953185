// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Logging
import RelayProtocol
import RelayServer
import Testing

@testable import relayd

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

@Suite struct ConfigurationOptionsTests {
    static func read(_ arguments: [String], environment: [String: String] = [:]) async throws -> RelayConfiguration {
        try await ConfigurationOptions.parse(arguments).read(environment: environment)
    }

    @Test func everyFlagIsRead() async throws {
        let configuration = try await Self.read([
            "--listen", "127.0.0.1:1", "--listen", "[::1]:2", "--url", "https://relay.example", "--data-directory", "/data",
            "--certificate-file", "/chain.pem", "--key-file", "/key.pem", "--insecure", "--limit", "commandBytes=7", "--limit",
            "helloSeconds=3", "--strangers-per-address", "4", "--outbound-bytes", "70000", "--idle-seconds", "5", "--drain-seconds", "6",
            "--log-level", "error", "--tunnel-listen", "127.0.0.1:3", "--tunnel-listen", "127.0.0.1:4",
        ])
        #expect(configuration.listen.map(\.description) == ["127.0.0.1:1", "[::1]:2"])
        #expect(configuration.urls.map(\.description) == ["https://relay.example"])
        #expect(configuration.tunnelAddresses.map(\.port) == [3, 4])
        #expect(configuration.dataDirectory == "/data")
        #expect(configuration.certificateFile == "/chain.pem")
        #expect(configuration.keyFile == "/key.pem")
        #expect(configuration.isInsecure)
        #expect(configuration.limits[.commandBytes] == 7)
        #expect(configuration.limits[.helloSeconds] == 3)
        #expect(configuration.strangersPerAddress == 4)
        #expect(configuration.outboundBytes == 70_000)
        #expect(configuration.idleSeconds == 5)
        #expect(configuration.drainSeconds == 6)
        #expect(configuration.logLevel == .error)
    }

    @Test func aFlagGoesBeforeTheEnvironmentAndTheEnvironmentBeforeTheFile() async throws {
        let path = FileManager.default.temporaryDirectory.path + "/relayd-\(UUID().uuidString).json"
        defer { try? FileManager.default.removeItem(atPath: path) }
        let file =
            #"{"idleSeconds": 1, "drainSeconds": 1, "strangersPerAddress": 1, "insecure": true, "limits": {"uriBytes": 9}, "listen": ["[::1]:5"]}"#
        try Data(file.utf8).write(to: URL(filePath: path))
        let environment = ["RELAYD_CONFIG": path, "RELAYD_IDLE_SECONDS": "2", "RELAYD_DRAIN_SECONDS": "2"]
        let configuration = try await Self.read(["--idle-seconds", "3"], environment: environment)
        #expect(configuration.idleSeconds == 3)
        #expect(configuration.drainSeconds == 2)
        #expect(configuration.strangersPerAddress == 1)
        #expect(configuration.isInsecure)
        #expect(configuration.limits[.uriBytes] == 9)
        #expect(configuration.listen.map(\.description) == ["[::1]:5"])
    }

    @Test(arguments: [["--limit", "nothing=1"], ["--limit", "uriBytes"], ["--limit", "uriBytes=x"], ["--config", "/nowhere.json"]])
    func whatCannotBeSaysSo(arguments: [String]) async throws {
        await #expect(throws: ConfigurationError.self) { try await Self.read(arguments) }
    }

    @Test(arguments: RelaySetting.allCases)
    func everySettingIsInTheHelp(setting: RelaySetting) {
        let name = setting.rawValue.reduce(into: "RELAYD_") { name, character in
            if character.isUppercase { name += "_" }
            name += character.uppercased()
        }
        #expect(Relayd.helpMessage(for: LimitsCommand.self, columns: 1_000).contains("(\(name)"))
    }
}

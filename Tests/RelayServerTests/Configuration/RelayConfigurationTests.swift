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
        return try RelayConfiguration(reading: ConfigReader(provider: provider), defaultDataDirectory: { "/default" })
    }

    @Test func defaultSettingsAreSafe() throws {
        let configuration = try Self.read(environment: [:])
        #expect(configuration.listen == [ListenAddress(host: "127.0.0.1", port: 8080)])
        #expect(configuration.dataDirectory == "/default")
        #expect(!configuration.allowsPlainHTTP)
        #expect(configuration.limits == Limits())
        #expect(configuration.unauthenticatedPerAddress == 256)
    }

    @Test func tunnelPortIsTheNextPortByDefault() throws {
        func ports(_ environment: [String: String]) throws -> [String] {
            try Self.read(environment: environment).tunnelAddresses.map(\.description)
        }
        #expect(try ports([:]) == ["127.0.0.1:8081"])
        #expect(try ports(["RELAYD_LISTEN": "[::1]:443,127.0.0.1:0,127.0.0.1:65535"]) == ["[::1]:444", "127.0.0.1:0"])
        #expect(try ports(["RELAYD_TUNNEL_LISTEN": "off"]) == [])
        #expect(throws: ConfigurationError.self) { try ports(["RELAYD_TUNNEL_LISTEN": "on"]) }
    }

    @Test(arguments: [
        ("0.0.0.0", "0.0.0.0:8080"), ("::", "[::]:8080"), ("[::]", "[::]:8080"), ("[::1]:0", "[::1]:0"),
        ("[fe80::1%eth0]:1", "[fe80::1%eth0]:1"), ("relay.example", "relay.example:8080"), ("127.0.0.1:65535", "127.0.0.1:65535"),
    ])
    func portOfAnAddressIsOptional(text: String, address: String) throws {
        #expect(try Self.read(environment: ["RELAYD_LISTEN": text]).listen.map(\.description) == [address])
    }

    @Test(arguments: [
        "", ":", ":80", "8080", "::1:80", "::1", "[]", "[::1", "::]", "[host]", "[::1]80", "host:", "host:+", "a b", "a/b", "-", "--url",
    ])
    func invalidListenAddressIsRejected(text: String) { #expect(ListenAddress(text, defaultPort: 1) == nil) }

    @Test func onlyListenHasADefaultPort() {
        #expect(throws: ConfigurationError.self) { try Self.read(environment: ["RELAYD_TUNNEL_LISTEN": "0.0.0.0"]) }
        #expect(throws: ConfigurationError.self) { try Self.read(environment: ["RELAYD_METRICS_LISTEN": "127.0.0.1"]) }
        let error = #expect(throws: ConfigurationError.self) { try Self.read(environment: ["RELAYD_LISTEN": "8080"]) }
        #expect(error?.description.contains("'8080'") == true && error?.description.contains("[::]:8443") == true)
    }

    @Test(arguments: [
        ("RELAYD_LISTEN", "8080"), ("RELAYD_LISTEN", "host:port"), ("RELAYD_LISTEN", "::1:80"), ("RELAYD_LISTEN", "host:65536"),
        ("RELAYD_URLS", "relay.example"), ("RELAYD_URLS", "https://relay.example/path"), ("RELAYD_ALLOW_HTTP", "maybe"),
        ("RELAYD_UNAUTHENTICATED_PER_ADDRESS", "0"), ("RELAYD_UNAUTHENTICATED_PER_ADDRESS", "many"), ("RELAYD_OUTBOUND_BYTES", "1"),
        ("RELAYD_IDLE_SECONDS", "-1"), ("RELAYD_LOG_LEVEL", "loud"), ("RELAYD_LIMITS_COMMAND_BYTES", "0"),
        ("RELAYD_CERTIFICATE_FILE", "/only/one"), ("RELAYD_KEY_FILE", "/only/one"),
    ])
    func invalidValueIsAnError(name: String, value: String) {
        #expect(throws: ConfigurationError.self) { try Self.read(environment: [name: value]) }
    }

    @Test func plainHTTPNeedsLoopbackOrInsecure() throws {
        let loopback = ListenAddress(host: "127.0.0.1", port: 1)
        let everywhere = ListenAddress(host: "0.0.0.0", port: 1)
        var configuration = RelayConfiguration(dataDirectory: "/")
        #expect(try configuration.security(of: loopback) == .plain)
        #expect(try configuration.security(of: ListenAddress(host: "::1", port: 1)) == .plain)
        #expect(try configuration.security(of: everywhere) == .ownKey)
        #expect(try configuration.security(of: ListenAddress(host: "127.0.0.1.example", port: 1)) == .ownKey)
        configuration.allowsPlainHTTP = true
        #expect(try configuration.security(of: everywhere) == .plain)
        (configuration.certificateFile, configuration.keyFile) = ("/c", "/k")
        #expect(try configuration.security(of: loopback) == .files(certificate: "/c", key: "/k"))
    }
}

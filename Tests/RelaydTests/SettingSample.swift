// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayLog
import RelayProtocol
import RelayServer

/// A value of a setting in each source, and how it appears in the configuration. Other tests check the setting's effect
/// on a relay: the comments name them.
struct SettingSample {
    var flags: [String]
    var variable: String
    var json: String
    var isVisible: @Sendable (RelayConfiguration) -> Bool

    init(_ flags: [String], variable: String, json: String, isVisible: @escaping @Sendable (RelayConfiguration) -> Bool) {
        (self.flags, self.variable, self.json, self.isVisible) = (flags, variable, json, isVisible)
    }

    /// A value without spaces that is the same in all sources, but quoted in the file.
    private init(_ flag: String, text: String, isVisible: @escaping @Sendable (RelayConfiguration) -> Bool) {
        self.init([flag, text], variable: text, json: "\"\(text)\"", isVisible: isVisible)
    }

    private init(_ flag: String, number: Int, isVisible: @escaping @Sendable (RelayConfiguration) -> Bool) {
        self.init([flag, "\(number)"], variable: "\(number)", json: "\(number)", isVisible: isVisible)
    }

    init(of setting: RelaySetting) {
        switch setting {
        // ListeningTests, RelayTLSTests
        case .listen:
            let listen = ["127.0.0.1:1", "[::1]:2"]
            self.init(
                listen.flatMap { ["--listen", $0] },
                variable: listen.joined(separator: ","),
                json: "[\"127.0.0.1:1\", \"[::1]:2\"]"
            ) {
                $0.listen.map(\.description) == listen
            }
        // UpgradeTests, HelloTests, RelayRoutesTests
        case .urls: self.init("--url", text: "https://relay.example") { $0.urls.map(\.description) == ["https://relay.example"] }
        // TunnelLifeTests
        case .tunnelListen:
            let listen = ["127.0.0.1:1", "[::1]:2"]
            self.init(
                listen.flatMap { ["--tunnel-listen", $0] },
                variable: listen.joined(separator: ","),
                json: "[\"127.0.0.1:1\", \"[::1]:2\"]"
            ) {
                $0.tunnelAddresses.map(\.description) == listen
            }
        // ListeningTests
        case .metricsListen: self.init("--metrics-listen", text: "127.0.0.1:9090") { $0.metricsListen?.description == "127.0.0.1:9090" }
        // RelaydProcessTests, where each relay has its own
        case .dataDirectory: self.init("--data-directory", text: "/data") { $0.dataDirectory == "/data" }
        // NodeDeathTests
        case .store: self.init("--store", text: "postgres://db.example/relay") { $0.store == .postgres("postgres://db.example/relay") }
        case .nodeUrl: self.init("--node-url", text: "https://n.example") { $0.nodeURL?.description == "https://n.example" }
        // RelayTLSTests
        case .certificateFile: self.init("--certificate-file", text: "/chain.pem") { $0.certificateFile == "/chain.pem" }
        case .keyFile: self.init("--key-file", text: "/key.pem") { $0.keyFile == "/key.pem" }
        // IssuersTests
        case .issuersFile: self.init("--issuers-file", text: "/issuers.json") { $0.issuersFile == "/issuers.json" }
        // AccountRouteTests
        case .operatorName: self.init("--operator-name", text: "Anna") { $0.operatorName == "Anna" }
        case .allowHttp: self.init(["--allow-http"], variable: "true", json: "true") { $0.allowsPlainHTTP }
        // TrustedProxiesTests, ProxyAttackTests
        case .trustedProxies:
            let proxies = ["10.0.0.0/8", "::1/128"]
            self.init(
                proxies.flatMap { ["--trusted-proxy", $0] },
                variable: proxies.joined(separator: ","),
                json: "[\"10.0.0.0/8\", \"::1/128\"]"
            ) {
                $0.trustedProxies.networks.map(\.description) == proxies
            }
        // AddressAttackTests
        case .tokenFailuresPerMinute: self.init("--token-failures-per-minute", number: 5) { $0.tokenFailuresPerMinute == 5 }
        case .tokenFailureAddresses: self.init("--token-failure-addresses", number: 20) { $0.tokenFailureAddresses == 20 }
        // PatienceTests, HostileClientTests
        case .unauthenticatedPerAddress: self.init("--unauthenticated-per-address", number: 7) { $0.unauthenticatedPerAddress == 7 }
        // ControlChannelTests, HostileClientTests
        case .outboundBytes: self.init("--outbound-bytes", number: 70_000) { $0.outboundBytes == 70_000 }
        // PatienceTests
        case .idleSeconds: self.init("--idle-seconds", number: 3) { $0.idleSeconds == 3 }
        // GracefulStopTests, WireChannelTests
        case .drainSeconds: self.init("--drain-seconds", number: 2) { $0.drainSeconds == 2 }
        // PushWakeTests
        case .pushAddresses:
            let addresses = ["apns=https://push.example", "wns=https://wns.example"]
            self.init(
                addresses.flatMap { ["--push-address", $0] },
                variable: addresses.joined(separator: ","),
                json: "[\"\(addresses[0])\", \"\(addresses[1])\"]"
            ) {
                $0.push.addresses == [.apns: "https://push.example", .wns: "https://wns.example"]
            }
        case .pushAuthoritiesFile: self.init("--push-authorities-file", text: "/roots.pem") { $0.push.authoritiesFile == "/roots.pem" }
        case .pushPrivateAddresses:
            self.init(["--push-private-addresses"], variable: "true", json: "true") { $0.push.allowsPrivateAddresses }
        // ListeningTests
        case .logLevel: self.init("--log-level", text: "error") { $0.logLevel == .error }
        // LogTests
        case .logFormat: self.init("--log-format", text: "json") { $0.logFormat == .json }
        }
    }

    /// A limit, which `welcome` announces to endpoints. The effect of each limit has its own test.
    init(of limit: Limit) {
        // Messages of this size fit into a control frame.
        let value = limit == .controlFrameBytes ? 1_234_567 : 12_345
        self.init(["--limit", "\(limit.rawValue)=\(value)"], variable: "\(value)", json: "\(value)") { $0.limits[limit] == value }
    }
}

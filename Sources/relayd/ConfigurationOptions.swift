// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import Configuration
import Foundation
import ProgramTexts
import RelayProtocol
import RelayServer

/// All settings as flags. Flags override the environment, and the environment overrides the file.
struct ConfigurationOptions: ParsableArguments {
    @OptionGroup var directory: DataDirectoryOptions

    @Option(
        help: ArgumentHelp(
            localized(
                "An address to listen on, such as 127.0.0.1:8080 (the default), 0.0.0.0 or [::]:8443; the default port is 8080, "
                    + "and 0 means any free port; may be repeated. (RELAYD_LISTEN)"
            ),
            valueName: "address[:port]"
        )
    )
    var listen: [String] = []

    @Option(
        help: ArgumentHelp(
            localized(
                "An address for tunnels over plain TCP, or off to use only WebSocket; may be repeated. "
                    + "Default: the hosts of --listen, one port higher. "
                    + "(RELAYD_TUNNEL_LISTEN)"
            ),
            valueName: "address:port"
        )
    )
    var tunnelListen: [String] = []

    @Option(
        name: .customLong("url"),
        help: ArgumentHelp(
            localized(
                "A public URL of the relay, best first; needed for a host name or behind a proxy; may be repeated. "
                    + "(RELAYD_URLS)"
            ),
            valueName: "url"
        )
    )
    var urls: [String] = []

    @Option(
        help: ArgumentHelp(
            localized(
                "Where endpoints reach this node, if several share a PostgreSQL database; --url is common to all nodes. "
                    + "(RELAYD_NODE_URL)"
            ),
            valueName: "url"
        )
    )
    var nodeUrl: String?

    @Option(
        help: ArgumentHelp(
            localized(
                "A separate address for /metrics, such as 127.0.0.1:9090: plain HTTP without authentication. Default: none. "
                    + "(RELAYD_METRICS_LISTEN)"
            ),
            valueName: "address:port"
        )
    )
    var metricsListen: String?

    @Option(
        help: ArgumentHelp(
            localized(
                "A certificate chain in PEM, with --key-file. Read again at SIGHUP. "
                    + "(RELAYD_CERTIFICATE_FILE)"
            ),
            valueName: "file"
        )
    )
    var certificateFile: String?

    @Option(
        help: ArgumentHelp(
            localized(
                "The certificate's private key in PEM. "
                    + "(RELAYD_KEY_FILE)"
            ),
            valueName: "file"
        )
    )
    var keyFile: String?

    @Option(
        help: ArgumentHelp(
            localized(
                "A JSON file with the issuers whose tokens the relay accepts, beside its own one. "
                    + "(RELAYD_ISSUERS_FILE)"
            ),
            valueName: "file"
        )
    )
    var issuersFile: String?

    @Option(
        help: ArgumentHelp(
            localized(
                "Who runs the relay, in the header of its pages, such as \"Anna's home\". Default: nobody is named. (RELAYD_OPERATOR_NAME)"
            ),
            valueName: "name"
        )
    )
    var operatorName: String?

    @Flag(
        help: ArgumentHelp(
            localized(
                "Serve plain HTTP on addresses that are not loopback, instead of TLS with the relay's own key. "
                    + "(RELAYD_ALLOW_HTTP=true)"
            )
        )
    )
    var allowHttp = false

    @Option(
        name: .customLong("limit"),
        help: ArgumentHelp(
            localized(
                "Set a limit that `relayd limits` prints; may be repeated. "
                    + "(RELAYD_LIMITS_COMMAND_BYTES and so on)"
            ),
            valueName: "name=value"
        )
    )
    var limits: [String] = []

    @Option(
        name: .customLong("trusted-proxy"),
        help: ArgumentHelp(
            localized(
                "A proxy, or a network of proxies, whose X-Forwarded-For names the client's address; may be repeated. Default: none. "
                    + "(RELAYD_TRUSTED_PROXIES)"
            ),
            valueName: "address[/bits]"
        )
    )
    var trustedProxies: [String] = []

    @Option(
        help: ArgumentHelp(
            localized(
                "How many unauthenticated connections one address may have. Default: 256. "
                    + "(RELAYD_UNAUTHENTICATED_PER_ADDRESS)"
            ),
            valueName: "count"
        )
    )
    var unauthenticatedPerAddress: Int?

    @Option(
        help: ArgumentHelp(
            localized(
                "How many token requests of one address may fail per minute; valid requests are always served. Default: 60. "
                    + "(RELAYD_TOKEN_FAILURES_PER_MINUTE)"
            ),
            valueName: "count"
        )
    )
    var tokenFailuresPerMinute: Int?

    @Option(
        help: ArgumentHelp(
            localized(
                "For how many addresses such failures are counted: those that failed last. Default: 10000. "
                    + "(RELAYD_TOKEN_FAILURE_ADDRESSES)"
            ),
            valueName: "count"
        )
    )
    var tokenFailureAddresses: Int?

    @Option(
        help: ArgumentHelp(
            localized(
                "How many bytes may wait for one endpoint to read them; beyond that its channel closes. Default: 16777216. "
                    + "(RELAYD_OUTBOUND_BYTES)"
            ),
            valueName: "bytes"
        )
    )
    var outboundBytes: Int?

    @Option(
        help: ArgumentHelp(
            localized(
                "How long an HTTP connection may be idle between requests. Default: 60. "
                    + "(RELAYD_IDLE_SECONDS)"
            ),
            valueName: "seconds"
        )
    )
    var idleSeconds: Int?

    @Option(
        help: ArgumentHelp(
            localized(
                "How long connections may take to end when the relay stops. Default: 5. "
                    + "(RELAYD_DRAIN_SECONDS)"
            ),
            valueName: "seconds"
        )
    )
    var drainSeconds: Int?

    @Option(
        name: .customLong("push-address"),
        help: ArgumentHelp(
            localized(
                "Another address of a push service, such as a proxy's; may be repeated. Names: \(pushNames). "
                    + "wns is the only origin that channel URIs may then have. (RELAYD_PUSH_ADDRESSES)"
            ),
            valueName: "name=url"
        )
    )
    var pushAddresses: [String] = []

    @Option(
        help: ArgumentHelp(
            localized(
                "Certificates in PEM that push services are checked with, instead of the system's. "
                    + "(RELAYD_PUSH_AUTHORITIES_FILE)"
            ),
            valueName: "file"
        )
    )
    var pushAuthoritiesFile: String?

    @Flag(
        help: ArgumentHelp(
            localized(
                "Allow Web Push endpoints at private addresses, such as a ntfy server at home. Devices choose these addresses. "
                    + "(RELAYD_PUSH_PRIVATE_ADDRESSES=true)"
            )
        )
    )
    var pushPrivateAddresses = false

    @Option(
        help: ArgumentHelp(
            localized(
                "trace, debug, info (the default), notice, warning, error or critical. "
                    + "(RELAYD_LOG_LEVEL)"
            ),
            valueName: "level"
        )
    )
    var logLevel: String?

    @Option(
        help: ArgumentHelp(
            localized(
                "text (the default) or json: one object in each line. "
                    + "(RELAYD_LOG_FORMAT)"
            ),
            valueName: "format"
        )
    )
    var logFormat: String?

    /// Merges the settings of flags, environment and file.
    func read(environment: [String: String] = ProcessInfo.processInfo.environment) throws -> RelayConfiguration {
        let configuration = try directory.read(environment: environment, flags: try flags())
        try configuration.checkURLs()
        return configuration
    }

    private func flags() throws -> [AbsoluteConfigKey: ConfigValue] {
        var values: [AbsoluteConfigKey: ConfigValue] = [:]
        func set(_ key: ConfigKey, _ content: ConfigContent?) {
            if let content { values[AbsoluteConfigKey(key)] = ConfigValue(content, isSecret: false) }
        }
        set(RelaySetting.listen.key, listen.isEmpty ? nil : .stringArray(listen))
        set(RelaySetting.tunnelListen.key, tunnelListen.isEmpty ? nil : .stringArray(tunnelListen))
        set(RelaySetting.urls.key, urls.isEmpty ? nil : .stringArray(urls))
        set(RelaySetting.nodeUrl.key, nodeUrl.map { .string($0) })
        set(RelaySetting.metricsListen.key, metricsListen.map { .string($0) })
        set(RelaySetting.certificateFile.key, certificateFile.map { .string($0) })
        set(RelaySetting.keyFile.key, keyFile.map { .string($0) })
        set(RelaySetting.issuersFile.key, issuersFile.map { .string($0) })
        set(RelaySetting.operatorName.key, operatorName.map { .string($0) })
        set(RelaySetting.allowHttp.key, allowHttp ? .bool(true) : nil)
        set(RelaySetting.trustedProxies.key, trustedProxies.isEmpty ? nil : .stringArray(trustedProxies))
        set(RelaySetting.unauthenticatedPerAddress.key, unauthenticatedPerAddress.map { .int($0) })
        set(RelaySetting.tokenFailuresPerMinute.key, tokenFailuresPerMinute.map { .int($0) })
        set(RelaySetting.tokenFailureAddresses.key, tokenFailureAddresses.map { .int($0) })
        set(RelaySetting.outboundBytes.key, outboundBytes.map { .int($0) })
        set(RelaySetting.idleSeconds.key, idleSeconds.map { .int($0) })
        set(RelaySetting.drainSeconds.key, drainSeconds.map { .int($0) })
        set(RelaySetting.pushAddresses.key, pushAddresses.isEmpty ? nil : .stringArray(pushAddresses))
        set(RelaySetting.pushAuthoritiesFile.key, pushAuthoritiesFile.map { .string($0) })
        set(RelaySetting.pushPrivateAddresses.key, pushPrivateAddresses ? .bool(true) : nil)
        set(RelaySetting.logLevel.key, logLevel.map { .string($0) })
        set(RelaySetting.logFormat.key, logFormat.map { .string($0) })
        for text in limits {
            let parts = text.split(separator: "=", maxSplits: 1)
            guard parts.count == 2, let limit = Limit(rawValue: String(parts[0])), let value = Int(parts[1]) else {
                throw ConfigurationError("limit: '\(text)' is not name=value; `relayd limits` prints the names")
            }
            set(RelaySetting.key(of: limit), .int(value))
        }
        return values
    }
}

private let pushNames = PushSettings.Address.allCases.map(\.rawValue).joined(separator: ", ")

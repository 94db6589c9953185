// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Configuration
import Logging
import RelayLog
package import RelayProtocol

/// The name of a setting: `dataDirectory` in the file, `--data-directory` as a flag, `RELAYD_DATA_DIRECTORY` in the environment.
package enum RelaySetting: String, CaseIterable, Sendable {
    case listen, urls, tunnelListen, metricsListen, dataDirectory, store, nodeUrl, certificateFile, keyFile, issuersFile, operatorName,
        allowHttp,
        trustedProxies,
        unauthenticatedPerAddress, tokenFailuresPerMinute, tokenFailureAddresses, outboundBytes, idleSeconds, drainSeconds, logLevel,
        logFormat,
        pushAddresses, pushAuthoritiesFile, pushPrivateAddresses

    package var key: ConfigKey { ConfigKey([rawValue]) }

    /// The name of the environment variable.
    package var variable: String { Self.variable(rawValue) }

    /// A limit's key: `limits.commandBytes`, `RELAYD_LIMITS_COMMAND_BYTES`.
    package static func key(of limit: Limit) -> ConfigKey { ConfigKey(["limits", limit.rawValue]) }
    package static func variable(of limit: Limit) -> String { variable("limits_" + limit.rawValue) }

    private static func variable(_ name: String) -> String {
        name.reduce(into: prefix) { name, character in
            if character.isUppercase { name += "_" }
            name += character.uppercased()
        }
    }

    private static let prefix = "RELAYD_"
    /// The path of the configuration file. It can be set only in the environment and by a flag.
    package static let fileVariable = prefix + "CONFIG"

    /// Rejects an unknown variable with the relay's prefix, which would otherwise be ignored without a message.
    package static func check(environment: some Sequence<String>) throws(ConfigurationError) {
        let known = Set(allCases.map(\.variable) + Limit.allCases.map { variable(of: $0) } + [fileVariable])
        guard let unknown = environment.filter({ $0.hasPrefix(prefix) && !known.contains($0) }).min() else { return }
        throw ConfigurationError("\(unknown): there is no such setting; `relayd serve --help` names them")
    }
}

extension RelayConfiguration {
    /// Reads the settings. Unset ones keep their defaults.
    /// - Parameter defaultDataDirectory: Called if no data directory is set.
    package init(
        reading reader: ConfigReader,
        defaultDataDirectory: () throws(ConfigurationError) -> String
    ) throws(ConfigurationError) {
        let values = Values(reader: reader)
        if let text = try values.text(.dataDirectory) {
            self.init(dataDirectory: text)
        } else {
            self.init(dataDirectory: try defaultDataDirectory())
        }
        texts = Dictionary(uniqueKeysWithValues: RelaySetting.allCases.map { ($0, values.description(of: $0)) })
        for limit in Limit.allCases { texts[nil, default: ""] += "\(reader.int(forKey: RelaySetting.key(of: limit)) ?? 0) " }
        if let texts = try values.list(.listen) {
            listen = try texts.map { text throws(ConfigurationError) in
                try Self.address(text, .listen, defaultPort: Self.defaultPort)
            }
        }
        if let texts = try values.list(.tunnelListen) {
            tunnelListen =
                texts == ["off"] ? [] : try texts.map { text throws(ConfigurationError) in try Self.address(text, .tunnelListen) }
        }
        if let text = try values.text(.metricsListen) {
            let address = try Self.address(text, .metricsListen)
            guard address.port != 0 else { throw ConfigurationError("metricsListen: port 0 is not allowed; choose a port") }
            metricsListen = address
        }
        if let texts = try values.list(.urls) {
            urls = try texts.map { text throws(ConfigurationError) in
                guard let url = Origin(text) else {
                    throw ConfigurationError("urls: '\(text)' is not scheme, host and port, such as https://relay.example")
                }
                return url
            }
        }
        if let text = try values.text(.store) { store = try StoreLocation(text) }
        if let text = try values.text(.nodeUrl) { nodeURL = try Self.nodeURL(text) }
        certificateFile = try values.text(.certificateFile)
        keyFile = try values.text(.keyFile)
        issuersFile = try values.text(.issuersFile)
        if let name = try values.text(.operatorName) {
            guard DisplayText.isName(name) else {
                throw ConfigurationError("operatorName: '\(DisplayText.sanitized(name))' is no name: use up to 64 visible characters")
            }
            operatorName = name
        }
        allowsPlainHTTP = try values.flag(.allowHttp) ?? allowsPlainHTTP
        push = try Self.push(values)
        if let texts = try values.list(.trustedProxies) {
            trustedProxies.networks = try texts.map { text throws(ConfigurationError) in
                guard let network = IPNetwork(parsing: text) else {
                    throw ConfigurationError("trustedProxies: '\(text)' is not an address or a network, such as 127.0.0.1 or 10.0.0.0/8")
                }
                return network
            }
        }
        tokenFailuresPerMinute = try values.number(.tokenFailuresPerMinute, 1...1_000_000) ?? tokenFailuresPerMinute
        tokenFailureAddresses = try values.number(.tokenFailureAddresses, 2...1_000_000) ?? tokenFailureAddresses
        unauthenticatedPerAddress = try values.number(.unauthenticatedPerAddress, 1...1_000_000) ?? unauthenticatedPerAddress
        outboundBytes = try values.number(.outboundBytes, 1 << 16...1 << 40) ?? outboundBytes
        idleSeconds = try values.number(.idleSeconds, 1...86_400) ?? idleSeconds
        drainSeconds = try values.number(.drainSeconds, 0...3_600) ?? drainSeconds
        if let text = try values.text(.logLevel) {
            guard let level = Logger.Level(rawValue: text) else {
                let levels = Logger.Level.allCases.map(\.rawValue).joined(separator: ", ")
                throw ConfigurationError("logLevel: '\(text)' is not one of \(levels)")
            }
            logLevel = level
        }
        if let text = try values.text(.logFormat) {
            guard let format = LogFormat(rawValue: text) else {
                throw ConfigurationError("logFormat: '\(text)' is not one of text, json")
            }
            logFormat = format
        }
        for limit in Limit.allCases {
            if let value = try values.number(RelaySetting.key(of: limit), 1...Limits.ceiling) { limits[limit] = value }
        }
        do throws(ControlFrameTooSmall) {
            try limits.checkFrameSizes()
        } catch {
            throw ConfigurationError("limits: \(error)")
        }
        for address in listen { _ = try security(of: address) }
    }

    private static func nodeURL(_ text: String) throws(ConfigurationError) -> Origin {
        guard let url = Origin(text) else {
            throw ConfigurationError("nodeUrl: '\(text)' is not scheme, host and port, such as https://node1.relay.example")
        }
        return url
    }

    private static func push(_ values: Values) throws(ConfigurationError) -> PushSettings {
        var push = PushSettings()
        for text in try values.list(.pushAddresses) ?? [] {
            let parts = text.utf8.split(separator: UInt8(ascii: "="), maxSplits: 1).map { String($0) ?? "" }
            guard parts.count == 2, let name = PushSettings.Address(rawValue: parts[0]) else {
                let names = PushSettings.Address.allCases.map(\.rawValue).joined(separator: ", ")
                throw ConfigurationError("pushAddresses: '\(text)' is not NAME=URL, where NAME is one of \(names)")
            }
            push.addresses[name] = parts[1]
        }
        push.authoritiesFile = try values.text(.pushAuthoritiesFile)
        push.allowsPrivateAddresses = try values.flag(.pushPrivateAddresses) ?? false
        return push
    }

    private static func address(
        _ text: String,
        _ setting: RelaySetting,
        defaultPort: Int? = nil
    ) throws(ConfigurationError) -> ListenAddress {
        guard let address = ListenAddress(text, defaultPort: defaultPort) else {
            let wanted = defaultPort == nil ? "an address and port" : "an address, with or without a port"
            throw ConfigurationError("\(setting.rawValue): '\(text)' is not \(wanted), such as 127.0.0.1:8080 or [::]:8443")
        }
        return address
    }

    /// Reads values, which are text in flags and environment, and typed in the file.
    private struct Values {
        let reader: ConfigReader

        func text(_ setting: RelaySetting) throws(ConfigurationError) -> String? {
            let text = reader.string(forKey: setting.key) ?? reader.bool(forKey: setting.key).map { String($0) }
            guard text != "" else { throw empty(setting) }
            return text
        }

        func flag(_ setting: RelaySetting) throws(ConfigurationError) -> Bool? {
            guard let text = try text(setting) else { return nil }
            guard let value = Bool(text) else { throw ConfigurationError("\(setting.rawValue): '\(text)' is neither true nor false") }
            return value
        }

        func list(_ setting: RelaySetting) throws(ConfigurationError) -> [String]? {
            let texts = reader.stringArray(forKey: setting.key) ?? reader.string(forKey: setting.key).map { [$0] }
            guard texts != [] else { throw empty(setting) }
            return texts
        }

        /// What is set, for comparison.
        func description(of setting: RelaySetting) -> String {
            if let texts = reader.stringArray(forKey: setting.key) { return "\(texts)" }
            if let text = reader.string(forKey: setting.key) { return text }
            if let number = reader.int(forKey: setting.key) { return "\(number)" }
            return reader.bool(forKey: setting.key).map { "\($0)" } ?? ""
        }

        private func empty(_ setting: RelaySetting) -> ConfigurationError {
            ConfigurationError("\(setting.rawValue): this is empty; leave it out to have the default")
        }

        func number(_ setting: RelaySetting, _ range: ClosedRange<Int>) throws(ConfigurationError) -> Int? {
            try number(setting.key, range)
        }

        func number(_ key: ConfigKey, _ range: ClosedRange<Int>) throws(ConfigurationError) -> Int? {
            let name = key.description
            if let value = reader.int(forKey: key) {
                guard range.contains(value) else {
                    throw ConfigurationError("\(name): \(value) is not from \(range.lowerBound) to \(range.upperBound)")
                }
                return value
            }
            // A text that is not a number reads as absent, so it needs its own error.
            guard reader.string(forKey: key) == nil else { throw ConfigurationError("\(name): this is not a number") }
            return nil
        }
    }
}

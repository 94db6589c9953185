// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Configuration
import Logging
package import RelayProtocol

/// A setting's name: `dataDirectory` in the file, `--data-directory` as a flag, `RELAYD_DATA_DIRECTORY` in the environment.
package enum RelaySetting: String, CaseIterable, Sendable {
    case listen, tunnelListen, urls, dataDirectory, certificateFile, keyFile, insecure, strangersPerAddress, outboundBytes, idleSeconds,
        drainSeconds,
        logLevel

    package var key: ConfigKey { ConfigKey([rawValue]) }

    /// A limit's key: `limits.commandBytes`, `RELAYD_LIMITS_COMMAND_BYTES`.
    package static func key(of limit: Limit) -> ConfigKey { ConfigKey(["limits", limit.rawValue]) }
}

extension RelayConfiguration {
    /// Reads the settings; what is not set stays as it is by default.
    package init(reading reader: ConfigReader, defaultDataDirectory: String) throws(ConfigurationError) {
        self.init(dataDirectory: defaultDataDirectory)
        let values = Values(reader: reader)
        if let texts = values.list(.listen) {
            listen = try Self.addresses(.listen, texts)
            guard !listen.isEmpty else { throw ConfigurationError("listen: at least one address is needed") }
        }
        if let texts = values.list(.tunnelListen) { tunnelListen = texts == ["off"] ? [] : try Self.addresses(.tunnelListen, texts) }
        if let texts = values.list(.urls) {
            urls = try texts.map { text throws(ConfigurationError) in
                guard let url = WebOrigin(text) else {
                    throw ConfigurationError("urls: '\(text)' is not scheme, host and port, such as https://relay.example")
                }
                return url
            }
        }
        if let text = values.text(.dataDirectory) { dataDirectory = text }
        certificateFile = values.text(.certificateFile)
        keyFile = values.text(.keyFile)
        if let text = values.text(.insecure) {
            guard let value = Bool(text) else { throw ConfigurationError("insecure: '\(text)' is neither true nor false") }
            isInsecure = value
        }
        strangersPerAddress = try values.number(.strangersPerAddress, 1...1_000_000) ?? strangersPerAddress
        outboundBytes = try values.number(.outboundBytes, 1 << 16...1 << 40) ?? outboundBytes
        idleSeconds = try values.number(.idleSeconds, 1...86_400) ?? idleSeconds
        drainSeconds = try values.number(.drainSeconds, 0...3_600) ?? drainSeconds
        if let text = values.text(.logLevel) {
            guard let level = Logger.Level(rawValue: text) else {
                let levels = Logger.Level.allCases.map(\.rawValue).joined(separator: ", ")
                throw ConfigurationError("logLevel: '\(text)' is none of \(levels)")
            }
            logLevel = level
        }
        for limit in Limit.allCases {
            if let value = try values.number(RelaySetting.key(of: limit), 1...1 << 40) { limits[limit] = value }
        }
        for address in listen { _ = try security(of: address) }
    }

    private static func addresses(_ setting: RelaySetting, _ texts: [String]) throws(ConfigurationError) -> [ListenAddress] {
        try texts.map { text throws(ConfigurationError) in
            guard let address = ListenAddress(text) else {
                throw ConfigurationError(
                    "\(setting.rawValue): '\(text)' is not an address and port, such as 127.0.0.1:8080 or [::]:8443"
                )
            }
            return address
        }
    }

    /// A value may come as text from flags and environment, and as what it is from a file.
    private struct Values {
        let reader: ConfigReader

        func text(_ setting: RelaySetting) -> String? {
            reader.string(forKey: setting.key) ?? reader.bool(forKey: setting.key).map { String($0) }
        }

        func list(_ setting: RelaySetting) -> [String]? {
            reader.stringArray(forKey: setting.key) ?? reader.string(forKey: setting.key).map { [$0] }
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
            // Text that is no number reads as absent; it must not pass for it.
            guard reader.string(forKey: key) == nil else { throw ConfigurationError("\(name): this is not a number") }
            return nil
        }
    }
}

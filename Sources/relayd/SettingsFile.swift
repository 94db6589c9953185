// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Configuration
import RelayProtocol
import RelayServer

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The settings of a JSON file. An unknown setting or a value of the wrong type is an error, because an ignored setting
/// would mislead the operator.
struct SettingsFile {
    private(set) var values: [AbsoluteConfigKey: ConfigValue] = [:]

    init(path: String) throws {
        guard let data = FileManager.default.contents(atPath: path) else { throw ConfigurationError("\(path) cannot be read") }
        try self.init(data, of: path)
    }

    /// - Parameter path: The file's path, for errors.
    init(_ data: Data, of path: String) throws {
        let members: [String: Member]
        do {
            members = try JSONDecoder().decode([String: Member].self, from: data)
        } catch {
            throw ConfigurationError("\(path) is not a JSON object of settings")
        }
        for (name, member) in members.sorted(by: { $0.key < $1.key }) {
            if name == "limits" {
                try add(limits: member)
            } else if let setting = RelaySetting(rawValue: name) {
                try add(setting.kind.content(of: member, name: name), for: setting.key)
            } else {
                throw ConfigurationError("\(name): there is no such setting; `relayd serve --help` names them")
            }
        }
    }

    private mutating func add(limits member: Member) throws {
        guard case .object(let limits) = member else { throw ConfigurationError("limits: this is not an object of names and values") }
        for (name, member) in limits.sorted(by: { $0.key < $1.key }) {
            guard let limit = Limit(rawValue: name) else {
                throw ConfigurationError("limits.\(name): there is no such limit; `relayd limits` prints the names")
            }
            add(try SettingKind.number.content(of: member, name: "limits.\(name)"), for: RelaySetting.key(of: limit))
        }
    }

    private mutating func add(_ content: ConfigContent, for key: ConfigKey) {
        values[AbsoluteConfigKey(key)] = ConfigValue(content, isSecret: false)
    }

    /// A value in the file.
    fileprivate indirect enum Member: Decodable {
        case text(String)
        case bool(Bool)
        case number(Int)
        case texts([String])
        case object([String: Member])
        case other

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let value = try? container.decode(Bool.self) {
                self = .bool(value)
            } else if let value = try? container.decode(Int.self) {
                self = .number(value)
            } else if let value = try? container.decode(String.self) {
                self = .text(value)
            } else if let value = try? container.decode([String].self) {
                self = .texts(value)
            } else if let value = try? container.decode([String: Member].self) {
                self = .object(value)
            } else {
                self = .other
            }
        }
    }
}

/// The type of a setting's value.
private enum SettingKind {
    case text, texts, bool, number

    func content(of member: SettingsFile.Member, name: String) throws -> ConfigContent {
        switch (self, member) {
        case (.text, .text(let value)): .string(value)
        case (.texts, .text(let value)): .stringArray([value])
        case (.texts, .texts(let values)): .stringArray(values)
        case (.bool, .bool(let value)): .bool(value)
        case (.number, .number(let value)): .int(value)
        case (.text, _): throw ConfigurationError("\(name): this is not a text")
        case (.texts, _): throw ConfigurationError("\(name): this is not a list of texts")
        case (.bool, _): throw ConfigurationError("\(name): this is neither true nor false")
        case (.number, _): throw ConfigurationError("\(name): this is not a whole number")
        }
    }
}

extension RelaySetting {
    fileprivate var kind: SettingKind {
        switch self {
        case .listen, .tunnelListen, .urls, .trustedProxies, .pushAddresses: .texts
        case .metricsListen, .dataDirectory, .certificateFile, .keyFile, .issuersFile, .pushAuthoritiesFile, .logLevel: .text
        case .allowHttp, .pushPrivateAddresses: .bool
        case .unauthenticatedPerAddress, .tokenFailuresPerMinute, .tokenFailureAddresses, .outboundBytes, .idleSeconds, .drainSeconds:
            .number
        }
    }
}

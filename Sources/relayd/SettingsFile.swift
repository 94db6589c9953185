// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Configuration
import Foundation
import RelayProtocol
import RelayServer

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
        let members: [(key: String, value: Member)]
        do {
            members = try JSONValue(file: [UInt8](data)).object().map { (key: $0.key, value: Member($0.value)) }
        } catch let error as JSONFileError {
            throw ConfigurationError("\(path): \(error)")
        } catch {
            throw ConfigurationError("\(path) is not a JSON object of settings")
        }
        try Self.checkOnce(members.map(\.key), prefix: "")
        for (name, member) in members {
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
        try Self.checkOnce(limits.map(\.key), prefix: "limits.")
        for (name, member) in limits {
            guard let limit = Limit(rawValue: name) else {
                throw ConfigurationError("limits.\(name): there is no such limit; `relayd limits` prints the names")
            }
            add(try SettingKind.number.content(of: member, name: "limits.\(name)"), for: RelaySetting.key(of: limit))
        }
    }

    /// The last one would count silently.
    private static func checkOnce(_ names: [String], prefix: String) throws(ConfigurationError) {
        var seen: Set<[UInt8]> = []
        guard let twice = names.first(where: { !seen.insert(Array($0.utf8)).inserted }) else { return }
        throw ConfigurationError("\(prefix)\(twice): this setting is in the file twice; remove one of them")
    }

    private mutating func add(_ content: ConfigContent, for key: ConfigKey) {
        values[AbsoluteConfigKey(key)] = ConfigValue(content, isSecret: false)
    }

    /// A value in the file.
    fileprivate indirect enum Member {
        case text(String)
        case bool(Bool)
        case number(Int)
        case texts([String])
        case object([(key: String, value: Member)])
        case other

        init(_ json: JSONValue) {
            if let value = try? Bool(json: json) {
                self = .bool(value)
            } else if let value = try? Int(json: json) {
                self = .number(value)
            } else if let value = try? String(json: json) {
                self = .text(value)
            } else if let value = try? [String](json: json) {
                self = .texts(value)
            } else if let members = try? json.object() {
                self = .object(members.map { (key: $0.key, value: Member($0.value)) })
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
        case .metricsListen, .dataDirectory, .store, .nodeUrl, .certificateFile, .keyFile, .issuersFile, .operatorName,
            .pushAuthoritiesFile, .logLevel, .logFormat:
            .text
        case .allowHttp, .pushPrivateAddresses: .bool
        case .unauthenticatedPerAddress, .tokenFailuresPerMinute, .tokenFailureAddresses, .outboundBytes, .idleSeconds, .drainSeconds:
            .number
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayStorage

/// The checked settings of the agent: what it does for other devices.
package struct AgentConfiguration: Hashable, Sendable {
    package static let appID = "org.device-relay.agent"

    /// The settings for launches.
    struct Opening: Hashable, Sendable {
        /// What becomes of links of other schemes, for which a program is installed.
        enum Others: String, CaseIterable, Sendable {
            case nothing
            /// They open after a question.
            case ask
        }

        /// Schemes that open without a question.
        var schemes = ["http", "https"]
        /// Schemes that open after a question.
        var ask: [String] = []
        var others = Others.ask
        /// The program that opens URIs; `nil` for the system's default.
        var command: Program?
        /// The program that approves a launch with exit code 0; `nil` to ask at the terminal.
        var prompt: Program?
        /// The maximum number of running programs that launches started. New devices share a quarter of it.
        var programs = 16
        /// Launches a minute for each known device.
        var launchesPerMinute = 60
        /// Launches a minute for all new devices together.
        var newLaunchesPerMinute = 6
    }

    /// The settings of the app service `files`.
    struct Files: Hashable, Sendable {
        var folder: String
        /// The devices that may read the folder; `nil` for all known devices.
        var devices: Set<RemoteSystem.ID>?
    }

    /// The settings for what other devices send.
    struct Receiving: Hashable, Sendable {
        /// The folder for files; it is created if it does not exist.
        var folder = DownloadsFolder.path(environment: ProcessInfo.processInfo.environment) ?? "Downloads"
        var accept = RelayAgent.Receiving.Access.known
    }

    /// How the agent uses the local network; `nil` for what holds for all commands, or the default.
    struct Nearby: Hashable, Sendable {
        var mode: NearbySettings.Mode?
        var interfaces: [String]?
        var reach: NearbyReach?
        var trustDays: Int?

        /// - Parameter environment: Its `DEVICE_RELAY_NEARBY` takes precedence.
        func apply(to settings: inout NearbySettings, environment: [String: String]) {
            if let mode, (environment["DEVICE_RELAY_NEARBY"] ?? "").isEmpty { settings.mode = mode }
            settings.interfaces = interfaces ?? settings.interfaces
            settings.reach = reach ?? settings.reach
            settings.trustDays = trustDays ?? settings.trustDays
        }
    }

    /// Where the agent serves its API.
    struct API: Hashable, Sendable {
        /// The path of the Unix socket; `nil` for the usual one.
        var socket: String?
        /// An address and port for programs with a token; `nil` for none.
        var listen: APIListener?
    }

    /// An app service that a program answers.
    struct ServiceConfiguration: Hashable, Sendable {
        enum Mode: String, Decodable, CaseIterable {
            /// One program run for each message.
            case once
            /// One program run for each connection.
            case lines
        }

        var command: Program
        var mode = Mode.once
        /// The time limit of each answer.
        var timeout = Duration.seconds(30)
        /// The devices that may call the service; `nil` for all known devices.
        var devices: Set<RemoteSystem.ID>?
    }

    var name = "Device Relay agent"
    var open = Opening()
    /// What new devices may do.
    var newDevices = NewCallerAccess.webPages
    var files: Files?
    var receive = Receiving()
    /// What others may do with the clipboard.
    var clipboard = ClipboardService.Access.write
    var nearby = Nearby()
    /// From the next start of the agent.
    var api = API()
    var services: [String: ServiceConfiguration] = [:]
    /// Names of environment variables that programs get in addition to the default ones.
    var environment: Set<String> = []

    package init() {}

    /// The configured programs that do not exist now.
    var missingPrograms: [String] {
        let all = [open.command, open.prompt] + services.sorted { $0.key < $1.key }.map(\.value.command)
        return all.compactMap { $0 }.filter { !$0.isThere }.compactMap(\.arguments.first)
    }
}

// MARK: - Decoding

extension AgentConfiguration: Decodable {
    enum CodingKeys: String, CodingKey, CaseIterable {
        case name, open, newDevices, files, receive, clipboard, nearby, api, services, environment
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(strictlyKeyedBy: CodingKeys.self)
        if container.contains(.name) {
            name = try container.decode(String.self, forKey: .name)
            try container.check(
                .name,
                DisplayText.isPlain(name) && name.count <= Limits()[.displayNameCharacters],
                "is not a valid display name"
            )
        }
        open = try container.decodeIfPresent(Opening.self, forKey: .open) ?? open
        newDevices = try container.choice(.newDevices) ?? newDevices
        files = try container.decodeIfPresent(Files.self, forKey: .files)
        receive = try container.decodeIfPresent(Receiving.self, forKey: .receive) ?? receive
        clipboard = try container.choice(.clipboard) ?? clipboard
        nearby = try container.decodeIfPresent(Nearby.self, forKey: .nearby) ?? nearby
        api = try container.decodeIfPresent(API.self, forKey: .api) ?? api
        if let names = try container.decodeIfPresent([String].self, forKey: .environment) {
            let bad = names.first { $0.isEmpty || $0.utf8.contains(0) || $0.utf8.contains(UInt8(ascii: "=")) }
            try container.check(
                .environment,
                bad == nil,
                "has '\(bad ?? "")', which is not the name of a variable; the agent passes on its own value"
            )
            environment = Set(names)
        }
        guard container.contains(.services) else { return }
        let services = try container.nestedContainer(keyedBy: AnyKey.self, forKey: .services)
        for key in services.allKeys {
            let name = key.stringValue
            try services.check(
                key,
                ProgramText.isValid(name) && name.utf8.count <= Limits()[.serviceNameBytes],
                "is not a valid service name: use visible ASCII, at most \(Limits()[.serviceNameBytes]) characters"
            )
            try services.check(key, !Self.builtIn.contains(name), "is a built-in service of the agent; choose another name")
            self.services[name] = try services.decode(ServiceConfiguration.self, forKey: key)
        }
        let most = Limits()[.servicesPerApp] - Self.builtIn.count
        try container.check(.services, self.services.count <= most, "has more than \(most) services")
    }

    /// Service names that the agent reserves: `ping` and `echo` need no settings, the others have their own.
    private static let builtIn: Set<String> = [
        PingService.name, EchoService.name, FileServiceMessages.serviceName, ShareMessages.serviceName, ClipboardService.name,
    ]
}

extension AgentConfiguration.Opening: Decodable {
    enum CodingKeys: String, CodingKey, CaseIterable {
        case schemes, ask, others, command, prompt, programs, launchesPerMinute, newLaunchesPerMinute
    }

    /// Schemes that the agent never opens: their URIs are programs for the application that opens them.
    static let neverOpened: Set<String> = ["javascript", "vbscript", "data"]

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(strictlyKeyedBy: CodingKeys.self)
        schemes = try container.schemes(.schemes) ?? schemes
        ask = try container.schemes(.ask) ?? ask
        let twice = ask.first { schemes.contains($0) }
        try container.check(.ask, twice == nil, "has '\(twice ?? "")', which 'schemes' has too")
        let most = Limits()[.schemesPerApp]
        try container.check(.ask, schemes.count + ask.count <= most, "and 'schemes' together have more than \(most) entries")
        others = try container.choice(.others) ?? others
        programs = try container.number(.programs, 1...1_000) ?? programs
        launchesPerMinute = try container.number(.launchesPerMinute, 1...6_000) ?? launchesPerMinute
        newLaunchesPerMinute = try container.number(.newLaunchesPerMinute, 0...6_000) ?? newLaunchesPerMinute
        command = try container.program(.command)
        prompt = try container.program(.prompt)
        for (key, program) in [(CodingKeys.command, command), (.prompt, prompt)] {
            // Inside a longer text (such as a shell script) the URI could be read as code. It must be a whole argument or the value
            // behind `=`.
            let isBad = program?.arguments.contains { $0.contains("{uri}") && $0 != "{uri}" && !$0.hasSuffix("={uri}") } ?? false
            try container.check(key, !isBad, "has {uri} inside an argument; it must be a whole argument, or follow = at the end")
        }
    }
}

extension AgentConfiguration.Files: Decodable {
    enum CodingKeys: String, CodingKey, CaseIterable { case folder, devices }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(strictlyKeyedBy: CodingKeys.self)
        folder = LocalPath.expanded(try container.decode(String.self, forKey: .folder))
        try container.check(.folder, folder.utf8.first == UInt8(ascii: "/"), "is not an absolute path")
        var isFolder = false
        if let type = try? FileManager.default.attributesOfItem(atPath: URL(filePath: folder).resolvingSymlinksInPath().path)[.type] {
            isFolder = type as? FileAttributeType == .typeDirectory
        }
        try container.check(.folder, isFolder, "is not an existing folder")
        devices = try container.devices(.devices)
    }
}

extension AgentConfiguration.Receiving: Decodable {
    enum CodingKeys: String, CodingKey, CaseIterable { case folder, accept }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(strictlyKeyedBy: CodingKeys.self)
        if let text = try container.decodeIfPresent(String.self, forKey: .folder) {
            folder = LocalPath.expanded(text)
            try container.check(.folder, folder.utf8.first == UInt8(ascii: "/"), "is not an absolute path")
        }
        accept = try container.choice(.accept) ?? accept
    }
}

extension AgentConfiguration.API: Decodable {
    enum CodingKeys: String, CodingKey, CaseIterable {
        case socket, listen, certificate, key
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(strictlyKeyedBy: CodingKeys.self)
        socket = try container.decodeIfPresent(String.self, forKey: .socket)
        try container.check(.socket, socket.map { $0.utf8.first == UInt8(ascii: "/") } ?? true, "is not an absolute path")
        guard let text = try container.decodeIfPresent(String.self, forKey: .listen) else { return }
        var listener = APIListener(text)
        try container.check(.listen, listener != nil, "is not an address and a port, such as 127.0.0.1:7800")
        let certificate = try container.decodeIfPresent(String.self, forKey: .certificate)
        let key = try container.decodeIfPresent(String.self, forKey: .key)
        try container.check(.key, (certificate == nil) == (key == nil), "and certificate belong together")
        if let certificate, let key { listener?.use(certificate: certificate, key: key) }
        try container.check(
            .listen,
            listener.map { $0.isLoopback || $0.certificate != nil } ?? true,
            "is not on this machine alone, so it needs certificate and key: other machines would read the tokens"
        )
        listen = listener
    }
}

extension AgentConfiguration.Nearby: Decodable {
    enum CodingKeys: String, CodingKey, CaseIterable { case mode, interfaces, reach, trustDays }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(strictlyKeyedBy: CodingKeys.self)
        mode = try container.choice(.mode)
        interfaces = try container.decodeIfPresent([String].self, forKey: .interfaces)
        try container.check(.interfaces, !(interfaces ?? []).contains(""), "has an empty name")
        reach = try container.choice(.reach)
        trustDays = try container.number(.trustDays, 1...365)
    }
}

extension AgentConfiguration.ServiceConfiguration: Decodable {
    enum CodingKeys: String, CodingKey, CaseIterable { case command, mode, timeout, devices }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(strictlyKeyedBy: CodingKeys.self)
        guard let command = try container.program(.command) else {
            throw DecodingError.keyNotFound(
                CodingKeys.command,
                DecodingError.Context(codingPath: decoder.codingPath, debugDescription: "needs a 'command'")
            )
        }
        self.command = command
        mode = try container.choice(.mode) ?? mode
        if let seconds = try container.decodeIfPresent(Double.self, forKey: .timeout) {
            try container.check(.timeout, (0.1...3_600).contains(seconds), "must be a number of seconds from 0.1 to 3600")
            timeout = .seconds(seconds)
        }
        devices = try container.devices(.devices)
    }
}

/// A key of a dictionary whose keys the user chooses.
struct AnyKey: CodingKey {
    var stringValue: String
    var intValue: Int? { nil }

    init(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { return nil }
}

extension Decoder {
    /// A container that rejects unknown keys, so that a misspelt setting is an error. It also rejects keys without a value, as they remain
    /// when all entries of a list are commented out: the default may permit more than an empty list.
    fileprivate func container<Keys: CodingKey & CaseIterable>(
        strictlyKeyedBy keys: Keys.Type
    ) throws -> KeyedDecodingContainer<Keys> {
        let all = try container(keyedBy: AnyKey.self)
        for key in all.allKeys {
            let known = Keys.allCases.map(\.stringValue).joined(separator: ", ")
            try all.check(key, Keys(stringValue: key.stringValue) != nil, "is not known here; known are \(known)")
            try all.check(key, try !all.decodeNil(forKey: key), "has no value: remove it for the default, or write [] for an empty list")
        }
        return try container(keyedBy: keys)
    }
}

extension KeyedDecodingContainer {
    fileprivate func check(_ key: Key, _ isGood: Bool, _ problem: @autoclosure () -> String) throws {
        if !isGood { throw DecodingError.dataCorruptedError(forKey: key, in: self, debugDescription: problem()) }
    }

    /// One of several words.
    fileprivate func choice<Choice: RawRepresentable<String> & CaseIterable>(_ key: Key) throws -> Choice? {
        guard let text = try decodeIfPresent(String.self, forKey: key) else { return nil }
        let choice = Choice(rawValue: text)
        try check(key, choice != nil, "must be one of \(Choice.allCases.map(\.rawValue).joined(separator: ", "))")
        return choice
    }

    fileprivate func program(_ key: Key) throws -> Program? {
        guard var arguments = try decodeIfPresent([String].self, forKey: key) else { return nil }
        try check(key, !(arguments.first ?? "").isEmpty, "must begin with a program")
        try check(key, !arguments.contains { $0.utf8.contains(0) }, "has a NUL character in an argument")
        arguments[0] = LocalPath.expanded(arguments[0])
        return Program(arguments: arguments)
    }

    fileprivate func schemes(_ key: Key) throws -> [String]? {
        guard let texts = try decodeIfPresent([String].self, forKey: key) else { return nil }
        let schemes = texts.map { $0.lowercased() }
        // Some letters outside ASCII are ASCII in lower case.
        let bad = texts.first { !LaunchURI.isScheme($0.lowercased()) || $0.utf8.contains { $0 >= 0x80 } }
        try check(key, bad == nil, "has '\(bad ?? "")', which is not a URI scheme; give it without a colon, such as https")
        let never = schemes.first { AgentConfiguration.Opening.neverOpened.contains($0) }
        try check(key, never == nil, "has '\(never ?? "")', which is never opened")
        try check(key, Set(schemes).count == schemes.count, "has an entry twice")
        try check(key, schemes.count <= Limits()[.schemesPerApp], "has more than \(Limits()[.schemesPerApp])")
        return schemes
    }

    fileprivate func number(_ key: Key, _ range: ClosedRange<Int>) throws -> Int? {
        guard let number = try decodeIfPresent(Int.self, forKey: key) else { return nil }
        try check(key, range.contains(number), "must be a number from \(range.lowerBound) to \(range.upperBound)")
        return number
    }

    fileprivate func devices(_ key: Key) throws -> Set<RemoteSystem.ID>? {
        guard let texts = try decodeIfPresent([String].self, forKey: key) else { return nil }
        return Set(
            try texts.map { text in
                let id = SystemID(text).map { RemoteSystem.ID($0) }
                try check(
                    key,
                    id != nil,
                    "has '\(text)', which is not a device's id, as `relay devices --json` prints it; a name proves nothing"
                )
                return id
            }.compactMap { $0 }
        )
    }
}

/// Paths as a user writes them.
enum LocalPath {
    /// The path with a leading `~` replaced by the home directory.
    static func expanded(_ path: String) -> String {
        guard path == "~" || path.hasPrefix("~/") else { return path }
        guard let home = HomeDirectory.path(environment: ProcessInfo.processInfo.environment) else { return path }
        return home + path.dropFirst()
    }
}

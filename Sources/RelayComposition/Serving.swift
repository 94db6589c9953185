// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
package import RelayProtocol
package import RelayServer
package import RelayStorage

/// The addresses of a relay, for other `relayd` commands: `serving.json` in the data directory. It remains when the relay stops, and is
/// locked while the relay runs.
package struct Serving: Codable, Hashable, Sendable {
    static let fileName = "serving.json"

    package var relay: String
    /// In order of preference.
    package var origins: [String]
    /// Whether clients see the certificate of the relay's own key there. `nil` in the file of an older version.
    package var showsOwnKey: Bool?

    package init(relay: RelayID, _ configuration: RelayConfiguration) throws {
        self.relay = "\(relay)"
        self.origins = try configuration.origins().map(\.description)
        self.showsOwnKey = try configuration.showsOwnKey()
    }

    /// The addresses of a directory's relay from its current or last run, and whether it runs. `nil` if no relay has run.
    package static func read(in directory: String) -> (serving: Serving, isRunning: Bool)? {
        let path = "\(directory)/\(fileName)"
        // The lock is checked before the content is read: another relay may replace the file in between.
        guard let isRunning = FileLock.isHeld(path), let bytes = try? PrivateFile.contents(of: path),
            let serving = try? JSONDecoder().decode(Serving.self, from: Data(bytes)), !serving.origins.isEmpty
        else { return nil }
        return (serving, isRunning)
    }

    /// Writes the file by which other `relayd` commands find this process. The file stays locked until the result is released or the process
    /// ends.
    package func writeRunFile(in directory: String) throws -> FileLock {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        return try FileLock(replacing: "\(directory)/\(Self.fileName)", with: [UInt8](encoder.encode(self)))
    }
}

extension RelayConfiguration {
    /// The origin for the links of `relayd invite`, with a note if needed: from the settings, otherwise from the running relay, otherwise
    /// from its last run.
    package func linkOrigin() throws -> (place: LinkPlace, note: String?) {
        let found = Serving.read(in: dataDirectory)
        if let found, found.isRunning, let first = found.serving.origins.first {
            let url = urls.first?.description ?? first
            guard found.serving.origins.contains(url) else {
                throw ConfigurationError(
                    "urls: the relay that runs is not known as \(url), but as \(found.serving.origins.joined(separator: ", "))"
                )
            }
            return (LinkPlace(origin: url, showsOwnKey: found.serving.showsOwnKey ?? false), nil)
        }
        let isConfigured = !urls.isEmpty || listen != RelayConfiguration(dataDirectory: dataDirectory).listen
        let configured = isConfigured ? try origins().first.map { LinkPlace(origin: "\($0)", showsOwnKey: try showsOwnKey()) } : nil
        let last = found?.serving
        guard let place = configured ?? last?.origins.first.map({ LinkPlace(origin: $0, showsOwnKey: last?.showsOwnKey ?? false) }) else {
            throw ConfigurationError(
                "no relay has run on \(dataDirectory) yet, so its address is not known: run `relayd serve` first, or give --url"
            )
        }
        return (place, "no relay runs on \(dataDirectory) now: start it before the link expires; the link leads to \(place.origin)")
    }

    /// Whether clients at the main URL see the certificate of the relay's own key. Behind a proxy they see that of the proxy, and the relay
    /// listens without TLS.
    package func showsOwnKey() throws(ConfigurationError) -> Bool {
        guard urls.isEmpty || urls.first?.isEncrypted ?? false else { return false }
        // The main URL is one that other machines can dial, if there is one.
        let main = listen.first { !$0.isLoopback } ?? listen.first
        for address in urls.isEmpty ? [main].compactMap(\.self) : listen {
            guard try security(of: address) == .ownKey else { return false }
        }
        return true
    }
}

/// Where the links of a relay lead.
package struct LinkPlace: Hashable, Sendable {
    /// Scheme, host and port.
    package var origin: String
    /// Whether clients see the certificate of the relay's own key there. Browsers refuse it; `relay` takes it where the relay's id is known.
    package var showsOwnKey: Bool

    package init(origin: String, showsOwnKey: Bool) {
        self.origin = origin
        self.showsOwnKey = showsOwnKey
    }

    /// The address with which `relay login` knows the relay.
    package func login(at relay: RelayID) -> String { showsOwnKey ? "\(origin)/#relay=\(relay)" : origin }

    /// A set-up link, from which `relay account password` knows the relay.
    package func setUp(_ link: Secret<String>, at relay: RelayID) -> Secret<String> {
        showsOwnKey ? Secret("\(link.exposed)#relay=\(relay)") : link
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol
package import RelayServer
package import RelayStorage

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The addresses of a relay, for other `relayd` commands: `serving.json` in the data directory. It remains when the relay stops, and is
/// locked while the relay runs.
package struct Serving: Codable, Hashable, Sendable {
    static let fileName = "serving.json"

    package var relay: String
    /// In order of preference.
    package var origins: [String]

    package init(relay: RelayID, origins: [Origin]) {
        self.relay = "\(relay)"
        self.origins = origins.map(\.description)
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
    package func linkOrigin() throws -> (origin: String, note: String?) {
        let found = Serving.read(in: dataDirectory)
        if let found, found.isRunning, let first = found.serving.origins.first {
            let url = urls.first?.description ?? first
            guard found.serving.origins.contains(url) else {
                throw ConfigurationError(
                    "urls: the relay that runs is not known as \(url), but as \(found.serving.origins.joined(separator: ", "))"
                )
            }
            return (url, nil)
        }
        let isConfigured = !urls.isEmpty || listen != RelayConfiguration(dataDirectory: dataDirectory).listen
        guard let origin = isConfigured ? try origins().first?.description : found?.serving.origins.first else {
            throw ConfigurationError(
                "no relay has run on \(dataDirectory) yet, so its address is not known: run `relayd serve` first, or give --url"
            )
        }
        return (origin, "no relay runs on \(dataDirectory) now; the link leads to \(origin) and holds for ten minutes")
    }
}

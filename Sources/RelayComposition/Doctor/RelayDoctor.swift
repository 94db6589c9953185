// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation
package import RelayProtocol
package import RelayServer

/// Examines a relay and what it depends on, as its operator sees it, and says what to do next. It changes nothing.
package struct RelayDoctor: Sendable {
    package struct Check: Encodable, Sendable {
        package enum Name: String, Encodable, Sendable, CaseIterable {
            case data, relay, database, disk, clock, ports, url, certificate, proxy, issuer, push, backup
        }

        package var name: Name
        package var status: CheckStatus
        package var message: String
        /// What to do next.
        package var advice: String?

        init(_ name: Name, _ status: CheckStatus, _ message: String, advice: String? = nil) {
            self.name = name
            self.status = status
            self.message = message
            self.advice = advice
        }
    }

    package struct Report: Encodable, Sendable {
        package var checks: [Check]
        /// The exit code: 1 if a check failed.
        package var exit: Int32

        init(_ checks: [Check]) {
            self.checks = checks
            exit = checks.contains { $0.status == .failed } ? 1 : 0
        }

        /// - Parameter translated: Translates a text.
        package func lines(_ translated: (String) -> String) -> [String] {
            let width = Check.Name.allCases.map(\.rawValue.count).max() ?? 0
            return checks.flatMap { check in
                check.status.lines(
                    name: check.name.rawValue,
                    width: width,
                    message: check.message,
                    advice: check.advice,
                    translated: translated
                )
            }
        }
    }

    let configuration: RelayConfiguration
    /// The folder of backups.
    let backups: String?
    /// A PEM file of authorities instead of the system's.
    let authorities: URL?
    let now: Milliseconds

    /// - Parameters:
    ///   - configuration: The settings of the relay.
    ///   - backups: The folder of its backups; `nil` if it is not known.
    ///   - authorities: A PEM file of the authorities that devices use; `nil` for the system's.
    package init(_ configuration: RelayConfiguration, backups: String?, authorities: URL?, now: Milliseconds) {
        self.configuration = configuration
        self.backups = backups
        self.authorities = authorities
        self.now = now
    }

    /// Runs all checks. It never throws: failures are part of the result.
    package func run() async -> Report {
        let key: RelayKey
        do {
            key = try data()
        } catch {
            return Report([
                Check(.data, .failed, "\(error)", advice: "name the directory and the settings of the relay, as `relayd serve` has them")
            ])
        }
        let found = Serving.read(in: configuration.dataDirectory)
        let running = runningOrigins(found)
        var checks = [Check(.data, .ok, "\(configuration.dataDirectory) has the data of relay \(key.id)"), relay(found)]
        checks.append(database(key))
        checks += disks()
        checks += clock()
        if running != nil { checks.append(await ports()) }
        let origins = running ?? (try? configuration.origins()) ?? []
        if running != nil {
            for origin in origins { checks += await ServiceChecks(origin, of: key.id, self).run() }
        }
        // What runs knows best what it shows.
        let runningShowsOwnKey = found.flatMap { $0.isRunning ? $0.serving.showsOwnKey : nil }
        checks += await certificates(
            origins,
            of: key.id,
            isOwnKeyPinned: runningShowsOwnKey ?? (try? configuration.showsOwnKey()) ?? false
        )
        checks += await issuers()
        checks.append(contentsOf: push(key))
        checks.append(backup(key))
        return Report(checks)
    }

    // MARK: The relay

    /// Reads what a start reads first.
    private func data() throws -> RelayKey {
        let directory = try DataDirectory(configuration.dataDirectory, .existing)
        return try RelayKey.load(in: directory.path)
    }

    /// The URLs of the relay that runs; `nil` if none does.
    private func runningOrigins(_ found: (serving: Serving, isRunning: Bool)?) -> [Origin]? {
        guard let found, found.isRunning else { return nil }
        // Those of loopback are the relay's own, if there are others.
        return configuration.urls.isEmpty ? found.serving.origins.compactMap { Origin($0) }.prefix(1).map(\.self) : configuration.urls
    }

    private func relay(_ found: (serving: Serving, isRunning: Bool)?) -> Check {
        guard let found else {
            return Check(.relay, .failed, "no relay has run on this directory yet", advice: "start it: relayd serve")
        }
        guard found.isRunning else {
            return Check(
                .relay,
                .failed,
                "no relay runs on this directory",
                advice: "see why it ended: journalctl --unit relayd --lines 20. Then start it: systemctl start relayd, or relayd serve"
            )
        }
        let served = found.serving.origins
        if let other = configuration.urls.first(where: { !served.contains($0.description) }) {
            return Check(
                .relay,
                .warning,
                "the relay that runs is not known as \(other), but as \(served.joined(separator: ", "))",
                advice:
                    "give this command the settings of `relayd serve` (flags, RELAYD_ variables, --config), or restart the relay with these"
            )
        }
        return Check(.relay, .ok, "it runs, and is known as \(served.joined(separator: ", "))")
    }
}

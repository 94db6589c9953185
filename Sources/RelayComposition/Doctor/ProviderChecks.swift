// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayServer

#if Postgres
import RelayPostgres
#endif

/// Services of others that the relay asks.
extension RelayDoctor {
    /// Microsoft's client secrets are valid for at most 24 months.
    private static let secretLife: Int64 = 22 * 30 * 86_400_000

    func issuers() async -> [Check] {
        guard let path = configuration.issuersFile else { return [Check(.issuer, .ok, "the relay's own issuer is the only one")] }
        let file: IssuersFile
        do throws(ConfigurationError) {
            file = try IssuersFile(path: path, environment: ProcessInfo.processInfo.environment)
        } catch {
            return [Check(.issuer, .failed, "\(error)", advice: "correct the file (docs/relay.md, Issuers)")]
        }
        var checks: [Check] = []
        for settings in file.issuers {
            let issuer = settings.trusted(now: { RelayClock.system.now().time })
            if let reason = await issuer.obstacle() {
                checks.append(
                    Check(
                        .issuer,
                        .failed,
                        "\(settings.url): \(reason)",
                        advice: "see what it publishes: \(ShellText.command("curl -i", "\(settings.url)/.well-known/openid-configuration"))"
                    )
                )
            } else {
                checks.append(Check(.issuer, .ok, "\(settings.url) answers"))
            }
        }
        return checks
    }

    func push(_ key: RelayKey) -> [Check] {
        let states: [CredentialState]
        do {
            states = try credentials(key)
        } catch {
            return [Check(.push, .skipped, "the push credentials cannot be read: \(error)", advice: "see the database: relayd store check")]
        }
        guard !states.isEmpty else {
            return [Check(.push, .ok, "there are no push credentials; sleeping devices wake by polling (docs/push.md)")]
        }
        let problems = states.compactMap { state -> Check? in
            let what = "\(state.type) \(state.id) (\(state.identity))"
            let replace =
                "relayd app credential remove \(ShellText.word(state.identity)) \(state.id), and add it again: relayd app credential \(Self.command(state.type)) --help"
            switch state.problem {
            case .unreadable: return Check(.push, .failed, "\(what) cannot be read with this relay.key", advice: "replace it: \(replace)")
            case .key: return Check(.push, .failed, "\(what) has no usable key", advice: "replace it: \(replace)")
            case .unproven:
                return Check(
                    .push,
                    .warning,
                    "\(what) is not used, because the domain is not proven",
                    advice: "\(ShellText.command("relayd app verify", state.identity))"
                )
            case nil: break
            }
            guard state.type == "wns", now.count.subtractingReportingOverflow(state.created).partialValue > Self.secretLife else {
                return nil
            }
            return Check(
                .push,
                .warning,
                "\(what) is \(ClockDifference.size(ofSeconds: Int(clamping: (now.count - state.created) / 1_000))) old; Microsoft's client secrets end after at most 24 months",
                advice: "replace it: \(replace)"
            )
        }
        return problems.isEmpty
            ? [Check(.push, .ok, states.count == 1 ? "1 push credential can be used" : "\(states.count) push credentials can be used")]
            : problems
    }

    /// As `relayd app credential` names a push type.
    private static func command(_ type: String) -> String { type == "webPush" ? "web-push" : type }

    private func credentials(_ key: RelayKey) throws -> [CredentialState] {
        switch configuration.store {
        case .dataDirectory: return try RelayTables.snapshot(in: configuration.dataDirectory) { try $0.credentialStates(with: key) }
        case .postgres(let uri):
            #if Postgres
            return try PostgresLocation(uri).read(of: key.id) { try $0.credentialStates(with: key) }
            #else
            throw ConfigurationError.withoutPostgres
            #endif
        }
    }
}

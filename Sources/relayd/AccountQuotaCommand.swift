// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import ProgramTexts
import RelayProtocol
import RelayServer

extension AccountCommand {
    struct Quota: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: localized("Show an account's quotas and what it uses of them, or set them."),
            discussion: localized(
                """
                A quota is a limit that is set for one account, in place of the value that `relayd limits` prints. What the account has above a lowered \
                quota stays; it only gets nothing new.
                """
            )
        )

        @Option(
            name: .customLong("set"),
            help: ArgumentHelp(localized("Set a quota, such as endpointsPerAccount=20; may be repeated."), valueName: "name=value")
        )
        var changes: [String] = []
        @Option(
            name: .customLong("reset"),
            help: ArgumentHelp(
                localized("Give a quota, or all of them, the relay's own value again; may be repeated."),
                valueName: "name|all"
            )
        )
        var resets: [String] = []
        @OptionGroup var options: AccountOptions

        private func change() throws -> QuotaChange {
            do throws(QuotaChange.Refused) {
                return try QuotaChange(parsing: changes, reset: resets)
            } catch {
                throw ValidationError("\(error)")
            }
        }

        func validate() throws { _ = try change() }

        func run() async throws {
            let request = AdminRequest.accountQuotas(options.account, try change())
            guard case .quotas(let quotas) = try await administer(request, options.settings.read()) else { throw AdminError.unknownAnswer }
            if options.json { return try printJSON(quotas) }
            for line in quotas.lines { try print(line) }
        }
    }
}

extension AdminQuotas {
    fileprivate var lines: [String] {
        let width = quotas.map(\.name.count).max() ?? 0
        return quotas.map { quota in
            let padding = String(repeating: " ", count: width - quota.name.count)
            let value = Limit.Unit(rawValue: quota.unit)?.text(quota.value) ?? "\(quota.value) \(quota.unit)"
            // The columns keep their width in each language.
            let text =
                quota.isSet
                ? "\(value) (set, default \(quota.relayValue)), \(quota.used) used" : "\(value) (default), \(quota.used) used"
            return quota.name + padding + "  " + localized(text)
        }
    }
}

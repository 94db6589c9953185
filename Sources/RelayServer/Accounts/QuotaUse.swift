// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// How much of its quotas an account uses.
package struct QuotaUse: Hashable, Sendable {
    /// For each quota. For those of a mailbox, it is the fullest one; for those of a sender, its largest part of any mailbox.
    package private(set) var values: [Limit: Int] = [:]

    private mutating func raise(_ commands: Limit, _ bytes: Limit, to use: MailboxUse) {
        values[commands] = max(values[commands] ?? 0, use.commands)
        values[bytes] = max(values[bytes] ?? 0, use.bytes)
    }

    init(of account: AccountID, _ store: any AccountTransaction) throws {
        let endpoints = try store.endpoints(of: account)
        let rows = Dictionary(endpoints.map { ($0.id, $0) }) { first, _ in first }
        for limit in AccountQuotas.limits { values[limit] = 0 }
        values[.endpointsPerAccount] = endpoints.count
        values[.endpointsEverPerAccount] = endpoints.count + (try store.revocationCount(of: account))
        values[.accountBytes] = try store.storedBytes(of: account)
        for target in endpoints {
            var (mailbox, newcomers) = (MailboxUse(), MailboxUse())
            for (sender, part) in try store.mailboxShares(of: target.id, account: account) {
                mailbox.add(part)
                // As the admission counts: newcomers, and endpoints that were revoked, share one part.
                if rows[sender]?.isNew(to: target) ?? true {
                    newcomers.add(part)
                } else {
                    raise(.mailboxCommandsPerSender, .mailboxBytesPerSender, to: part)
                }
            }
            raise(.mailboxCommandsPerSender, .mailboxBytesPerSender, to: newcomers)
            raise(.mailboxCommands, .mailboxBytes, to: mailbox)
            raise(.mailboxCommands, .mailboxBytes, to: try store.outcomesUse(of: target.id, account: account))
        }
    }
}

extension MailboxUse {
    fileprivate mutating func add(_ other: MailboxUse) {
        commands += other.commands
        bytes += other.bytes
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// When which key signs, and which are published: each is published before it first signs, and until the last token it signed
/// has ended.
struct SigningKeyRing: Hashable, Sendable {
    /// How long a key signs.
    static let period: Int64 = 90 * 86_400_000
    /// How long before its first use a key is published, if all goes well.
    static let lead: Int64 = 7 * 86_400_000
    /// How long at least: nobody keeps a key set longer than a day.
    static let minimumLead: Int64 = 86_400_000
    /// How long a key is published after its last use.
    static let trail: Int64 = AccessToken.life + 3_600_000

    struct Entry: Hashable, Sendable {
        /// The key's thumbprint.
        var id: String
        var activates: Milliseconds
    }

    /// By time of activation.
    let entries: [Entry]

    init(_ entries: [Entry]) { self.entries = entries.sorted { $0.activates < $1.activates } }

    enum Change: Hashable {
        case create(activates: Milliseconds)
        case remove(id: String)
    }

    /// What is due.
    func changes(at now: Milliseconds) -> [Change] {
        guard let newest = entries.last else { return [.create(activates: now)] }
        var changes: [Change] = []
        if now >= nextCreation(after: newest) {
            // Whoever was off for long comes back with the old key, which goes on until all know the new one.
            changes.append(
                .create(
                    activates: max(
                        Milliseconds(clamping: newest.activates.count + SigningKeyRing.period),
                        Milliseconds(clamping: now.count + SigningKeyRing.minimumLead)
                    )
                )
            )
        }
        for (entry, successor) in zip(entries, entries.dropFirst()) where now >= removal(before: successor) {
            changes.append(.remove(id: entry.id))
        }
        return changes
    }

    /// When `changes` will next have something to say.
    var nextChange: Milliseconds {
        guard let newest = entries.last else { return 0 }
        guard let second = entries.dropFirst().first else { return nextCreation(after: newest) }
        return min(nextCreation(after: newest), removal(before: second))
    }

    /// The key that signs now.
    func signer(at now: Milliseconds) -> Entry? {
        // With a clock that was set back there may be none in force; any is better than no tokens at all.
        entries.last { $0.activates <= now } ?? entries.first
    }

    private func nextCreation(after newest: Entry) -> Milliseconds {
        Milliseconds(clamping: newest.activates.count + SigningKeyRing.period - SigningKeyRing.lead)
    }

    private func removal(before successor: Entry) -> Milliseconds {
        Milliseconds(clamping: successor.activates.count + SigningKeyRing.trail)
    }
}

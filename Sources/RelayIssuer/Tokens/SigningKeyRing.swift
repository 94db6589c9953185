// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// The schedule of signing keys: each key is published before it first signs, and until the last token that it signed has expired.
package struct SigningKeyRing: Hashable, Sendable {
    /// How long a key signs.
    static let period: Int64 = 90 * 86_400_000
    /// How long before its first use a key is normally published.
    static let lead: Int64 = 7 * 86_400_000
    /// How long before its first use a key must be published, at least. Clients cache a key set for at most a day.
    static let minimumLead: Int64 = 86_400_000
    /// How long a key stays published after its last use.
    static let trail: Int64 = AccessTokenClaims.life + 3_600_000

    package struct Entry: Hashable, Sendable {
        /// The thumbprint of the key.
        package var id: String
        package var activates: Milliseconds
    }

    /// Sorted by activation.
    let entries: [Entry]

    init(_ entries: [Entry]) { self.entries = entries.sorted { $0.activates < $1.activates } }

    enum Change: Hashable {
        case create(activates: Milliseconds)
        case remove(id: String)
    }

    /// Returns the changes that are due.
    func changes(at now: Milliseconds) -> [Change] {
        guard let newest = entries.last else { return [.create(activates: now)] }
        var changes: [Change] = []
        if now >= nextCreation(after: newest) {
            // After a long downtime, the old key signs until clients have had time to fetch the new one.
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

    /// Returns the changes that remove a key before its time; none if there is no such key. There is always one that signs.
    func changes(removing id: String, at now: Milliseconds) -> [Change] {
        guard entries.contains(where: { $0.id == id }) else { return [] }
        return (signer(at: now)?.id == id ? [.create(activates: now)] : []) + [.remove(id: id)]
    }

    /// When `changes` next returns a change.
    var nextChange: Milliseconds {
        guard let newest = entries.last else { return 0 }
        guard let second = entries.dropFirst().first else { return nextCreation(after: newest) }
        return min(nextCreation(after: newest), removal(before: second))
    }

    /// Returns the key that signs now.
    func signer(at now: Milliseconds) -> Entry? {
        // If the clock was set back, no key may be active yet. Then the oldest one signs.
        entries.last { $0.activates <= now } ?? entries.first
    }

    private func nextCreation(after newest: Entry) -> Milliseconds {
        Milliseconds(clamping: newest.activates.count + SigningKeyRing.period - SigningKeyRing.lead)
    }

    private func removal(before successor: Entry) -> Milliseconds {
        Milliseconds(clamping: successor.activates.count + SigningKeyRing.trail)
    }
}

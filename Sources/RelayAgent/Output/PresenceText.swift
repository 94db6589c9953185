// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation
package import RelayProtocol

extension Presence {
    /// The presence of the codes that a result has.
    init(status: String, reason: String, since: Date?, expectedWithin: Double?, wakeable: Bool) {
        self.init(
            RemoteSystemStatus(rawValue: status),
            Reason(rawValue: reason),
            since: since.map { Milliseconds(clamping: Int64(($0.timeIntervalSince1970 * 1_000).rounded())) },
            expectedWithin: expectedWithin.map { Milliseconds(clamping: Int64(($0 * 1_000).rounded())) },
            isWakeable: wakeable
        )
    }
}

/// Describes presence on a terminal: the words of `StateText`, and since when.
package enum PresenceText {
    /// Such as `Online for 4 h`, `Asleep for 3 min, can be woken`, or `Switched off since 14:02`.
    package static func text(_ presence: Presence, now: Date = .now) -> String {
        let word = StateText.Device(presence)
        let time = presence.since.map { LocalTime.short($0, now: now) } ?? ""
        let interval = presence.expectedWithin.map { Age.text(seconds: Int(clamping: $0.components.seconds)) } ?? ""
        let text = word.text(["time": time, "interval": interval])
        guard let age = presence.since.map({ Age.text(since: $0, now: now) }) else { return text }
        switch word {
        case .available: return "Online for \(age)"
        case .wakeable: return "Asleep for \(age), can be woken"
        case .polling: return "Asleep for \(age), looks in every \(interval)"
        case .waking: return "Waking …, for \(age)"
        case .suspended: return "Asleep until it is opened, for \(age)"
        case .signedOut: return "Signed out since \(time)"
        default: return text
        }
    }

    /// The same within a sentence or in brackets.
    static func phrase(_ presence: Presence) -> String { StateText.lowered(text(presence)) }

    /// Such as `'TV' is not connected (switched off since 14:02)`.
    static func notConnected(_ name: String, _ presence: Presence) -> String { "'\(name)' is not connected (\(phrase(presence)))" }

    /// Such as `a wake was sent to it through apns; it took 4 s to answer the last one`.
    static func wake(_ wake: CommandList.WakeResult) -> String {
        let channel = wake.channel.map { " through \($0)" } ?? ""
        guard let time = wake.expectedWithin else { return "a wake was sent to it\(channel)" }
        let seconds = Duration.seconds(time).components.seconds
        return "a wake was sent to it\(channel); it took \(Age.text(seconds: Int(clamping: seconds))) to answer the last one"
    }
}

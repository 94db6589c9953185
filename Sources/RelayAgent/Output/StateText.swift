// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
package import RelayProtocol

/// The words for the states of devices, commands and trust: one table for the command line and the console, whose file of words has the
/// same keys and texts. JSON has the codes.
///
/// In a text `{name}` is a device, `{time}` a time, `{interval}` a duration and `{reason}` what a device or the relay says.
package enum StateText {
    /// A state with a word. Its raw value is the rest of its key.
    package protocol Word: RawRepresentable, CaseIterable, Sendable where RawValue == String {
        /// The beginning of its keys.
        static var area: String { get }
        var text: String { get }
    }

    /// All keys, with their texts.
    package static let table: [(key: String, text: String)] =
        rows(Device.self) + rows(Command.self) + rows(Witness.self) + rows(Trust.self)

    private static func rows<W: Word>(_: W.Type) -> [(key: String, text: String)] {
        W.allCases.map { ("\(W.area).\($0.rawValue)", $0.text) }
    }

    /// Whether a device can be reached, and if not, why.
    package enum Device: String, Word {
        case available, contested, nearby, found, waking, wakeable, polling, suspended, lost
        case lostSince = "lost.since"
        case shutdown
        case shutdownSince = "shutdown.since"
        case signedOut, neverSeen, notNearby, relayStarting, relayUnreachable, unknown

        package static let area = "presence"

        package init(_ presence: Presence) {
            let hasTime = presence.since != nil
            self =
                switch (presence.state, presence.reason) {
                // Two copies of one home take the connection from each other.
                case (.available, .contested): .contested
                case (.available, .nearby): .nearby
                case (.available, _): .available
                case (.discoveringAvailability, .nearby): .found
                case (.discoveringAvailability, _), (.unavailable, .waking): .waking
                case (.unavailable, .signedOut): .signedOut
                // It has never had the host role: a device that only sends.
                case (.unavailable, .neverSeen): .neverSeen
                case (.unavailable, _) where presence.isWakeable: .wakeable
                case (.unavailable, .suspended): presence.expectedWithin == nil ? .suspended : .polling
                case (.unavailable, .shutdown): hasTime ? .shutdownSince : .shutdown
                case (.unavailable, _): hasTime ? .lostSince : .lost
                case (_, .notNearby): .notNearby
                case (_, .relayStarting): .relayStarting
                case (_, .relayUnreachable): .relayUnreachable
                default: .unknown
                }
        }

        package var text: String {
            switch self {
            case .available: "Online"
            case .contested: "Online from two places: it was copied"
            case .nearby: "Online, on this network"
            case .found: "On this network"
            case .waking: "Waking …"
            case .wakeable: "Asleep, can be woken"
            case .polling: "Asleep, looks in every {interval}"
            case .suspended: "Asleep until it is opened"
            case .lost: "Offline"
            case .lostSince: "Offline since {time}"
            case .shutdown: "Switched off"
            case .shutdownSince: "Switched off since {time}"
            case .signedOut: "Signed out"
            case .neverSeen: "Not started yet"
            case .notNearby: "Not on this network"
            case .relayStarting: "Not known yet (relay starting)"
            case .relayUnreachable: "Not known: no connection to the relay"
            case .unknown: "Not known"
            }
        }
    }

    /// How far a command is, or how it ended.
    package enum Command: String, Word {
        case stored, accepted, pending, waking, delivered, succeeded, deniedByRemoteSystem, protocolUnavailable, appUnavailable
        case remoteSystemUnavailable, failed, unknown, notAccepted, invalidURI, valueSetTooLarge, ambiguous, notConfirmed
        case submissionKeyReused, relayUnavailable, notSignedIn, storageFailed, expired, cancelled, indeterminate

        package static let area = "command"

        /// - Parameter status: A code of a result. A code of a newer version is a failure.
        package init(status: String) { self = Command(rawValue: status) ?? .failed }

        package var text: String {
            switch self {
            case .stored: "Not sent yet"
            case .accepted, .pending: "Waits at the relay"
            case .waking: "Waking {name}"
            case .delivered: "On {name}, not opened yet"
            case .succeeded: "Opened on {name}"
            case .deniedByRemoteSystem: "Declined on {name}: {reason}"
            case .protocolUnavailable: "Nothing on {name} opens this"
            case .appUnavailable: "Nothing on {name} opens this: the app is gone"
            case .remoteSystemUnavailable: "Not opened: {name} is gone"
            case .failed, .unknown: "Failed on {name}: {reason}"
            case .notAccepted, .invalidURI, .valueSetTooLarge, .ambiguous, .notConfirmed, .submissionKeyReused, .relayUnavailable,
                .notSignedIn, .storageFailed:
                "Not sent: {reason}"
            case .expired: "Expired, was not opened"
            case .cancelled: "Cancelled, was not opened"
            case .indeterminate: "Not known whether it was opened"
            }
        }
    }

    /// Who attests an outcome.
    package enum Witness: String, Word {
        case target
        case untimedTarget = "target.untimed"
        case relay

        package static let area = "attested"

        package var text: String {
            switch self {
            case .target: "signed by {name}, {time}"
            case .untimedTarget: "signed by {name}"
            case .relay: "says the relay"
            }
        }
    }

    /// How far a device is trusted.
    package enum Trust: String, Word {
        case verified, unverified, new, limited, revoked

        package static let area = "trust"

        package var text: String {
            switch self {
            case .verified: "Verified"
            case .unverified: "Not compared yet"
            case .new: "New, not approved"
            case .limited: "Browser"
            case .revoked: "Revoked"
            }
        }
    }

    /// A text within a sentence or in brackets.
    static func lowered(_ text: String) -> String { text.prefix(1).lowercased() + text.dropFirst() }
}

extension StateText.Word {
    /// The text with its values. A value that looks like a placeholder stays as it is.
    package func text(_ values: [String: String]) -> String {
        text.replacing(/\{([a-z]+)\}/) { match in values[String(match.1)] ?? String(match.0) }
    }
}

extension StateText.Command {
    /// The text for a command.
    /// - Parameters:
    ///   - name: The name of its target.
    ///   - reason: Why it failed, if a text says so.
    package func text(on name: String, _ reason: String?) -> String { text(["name": name, "reason": reason ?? rawValue]) }
}

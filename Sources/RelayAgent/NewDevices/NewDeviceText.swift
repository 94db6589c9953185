// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// The texts about a new endpoint. Its name and the relay's statements are quoted and bounded.
enum NewDeviceText {
    /// The longest part of a name that is shown, in bytes. 64 characters can have more, with many accents on each.
    private static let maximumBytes = 256

    static let title = "A new device is on your account"

    /// One fact on each line.
    static func facts(_ endpoint: NewEndpoint) -> [String] {
        let kind = "\(bounded(endpoint.kind.rawValue)), \(bounded(endpoint.platform.rawValue))"
        var lines = ["\(DisplayText.quoted(bounded(endpoint.deviceName))) (\(kind))"]
        if let joining = endpoint.joining {
            let time = LocalTime.text(joining.time)
            let address = joining.address.map(bounded)
            lines.append(address.map { "joined \(time) from \($0), as the relay says" } ?? "joined \(time), as the relay says")
            let inviter = endpoint.inviterName.map { DisplayText.quoted(bounded($0)) } ?? joining.invitedBy.map { "endpoint \($0.label)" }
            if let inviter { lines.append("invited by \(inviter)\(joining.isInviterRevoked ? ", which was revoked" : "")") }
        }
        return lines + ["words: \(endpoint.fingerprint)"]
    }

    static let advice = "Approve it if it is yours and `relay whoami` on it prints these words."

    static func more(_ count: Int) -> String { "\(count) more new devices wait: run relay devices --all" }

    /// A text as the body of a desktop notification. Servers read it as markup, and `notify-send` replaces escape sequences that begin
    /// with a backslash before that.
    static func escaped(_ text: String) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            case "'": escaped += "&#39;"
            case "\\": escaped += "&#92;"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }

    static func bounded(_ text: String) -> String {
        let plain = DisplayText.sanitized(text)
        guard plain.utf8.count > maximumBytes else { return plain }
        var (scalars, count) = (String.UnicodeScalarView(), 0)
        for scalar in plain.unicodeScalars {
            count += UTF8.width(scalar)
            guard count <= maximumBytes else { break }
            scalars.append(scalar)
        }
        return String(scalars) + "…"
    }
}

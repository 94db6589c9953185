// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The links that commands take. A command that is given one of another command names that.
enum KnownLink {
    case join, setUp, pairing

    init?(_ text: String) {
        if (try? JoinLink(parsing: text, plainHTTP: .allowed)) != nil {
            self = .join
        } else if SetUpLink(parsing: text) != nil {
            self = .setUp
        } else if JoinLink.withoutSurroundings(text).utf8.starts(with: "\(PairingLink.scheme):".utf8) {
            self = .pairing
        } else {
            return nil
        }
    }

    /// The error of another command. It contains nothing from the link, which is a secret.
    var error: AgentError {
        let message =
            switch self {
            case .join: "this is a join link, which makes a device one of the account, by: relay join"
            case .setUp: "this is a set-up link, which sets the password of an account, by: relay account password"
            case .pairing: "this is a pairing link, which makes two devices know each other on the local network, by: relay pair --enter"
            }
        return AgentError("linkInvalid", message, .usage)
    }
}

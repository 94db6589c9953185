// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// A relay's address as a person writes it, perhaps with the relay's id, which its key has to prove: `https://relay.example:8080/#relay=ID`.
/// Without a scheme it has TLS.
struct PinnedRelay {
    let address: RelayAddress
    let id: RelayID?

    init(parsing text: String, allowsPlainHTTP: Bool) throws {
        if let other = KnownLink(text) { throw other.error }
        let halves = text.utf8.split(separator: UInt8(ascii: "#"), maxSplits: 1, omittingEmptySubsequences: false)
        let place = String(decoding: halves[0], as: UTF8.self)
        if halves.count == 2 {
            let prefix = "relay=".utf8
            guard halves[1].starts(with: prefix),
                let id = RelayID(String(decoding: halves[1].dropFirst(prefix.count), as: UTF8.self))
            else {
                throw AgentError(
                    "relayInvalid",
                    "the part after # must be relay= and the relay's id, as in its join links",
                    .usage
                )
            }
            self.id = id
        } else {
            id = nil
        }
        guard let url = URL(exactly: place.utf8.contains(UInt8(ascii: ":")) && place.contains("://") ? place : "https://\(place)") else {
            throw Self.invalid(text)
        }
        do throws(RelayAddress.Problem) {
            address = try RelayAddress(url, allowsPlaintext: allowsPlainHTTP)
        } catch {
            guard error == .notEncrypted else { throw Self.invalid(text) }
            throw AgentError(
                "plainHTTP",
                "this address leads to plain HTTP on another machine, which others on the network can read; --allow-http accepts it anyway",
                .usage
            )
        }
    }

    static func invalid(_ text: String) -> AgentError {
        AgentError("relayInvalid", "'\(DisplayText.sanitized(text))' is not the address of a relay, such as https://relay.example", .usage)
    }
}

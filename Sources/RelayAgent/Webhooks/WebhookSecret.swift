// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import RelayProtocol

/// The key that signs the messages of a webhook (Standard Webhooks, symmetric). A new one is used together with the old one for a while, so
/// that the receiver can change it without losing a message.
struct WebhookSecret: Sendable {
    var bytes: [UInt8]
    /// The key before, and until when it is used.
    var previous: (bytes: [UInt8], until: Date)?

    static let overlap: TimeInterval = 24 * 3_600

    static func new() -> WebhookSecret {
        var random = SystemRandomNumberGenerator()
        return WebhookSecret(bytes: (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &random) })
    }

    /// The text that is shown once.
    var text: String { "whsec_" + Base64.standard.encode(bytes) }

    func rotated(at now: Date) -> WebhookSecret {
        var next = Self.new()
        next.previous = (bytes, now + Self.overlap)
        return next
    }

    /// The value of `webhook-signature`.
    /// - Parameter timestamp: In seconds since 1970.
    func signature(of body: String, id: String, timestamp: Int64, now: Date) -> String {
        var keys = [bytes]
        if let previous, now < previous.until { keys.append(previous.bytes) }
        let content = Data("\(id).\(timestamp).\(body)".utf8)
        return keys.map { key in
            "v1," + Base64.standard.encode(HMAC<SHA256>.authenticationCode(for: content, using: SymmetricKey(data: key)))
        }.joined(separator: " ")
    }
}

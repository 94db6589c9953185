// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A packet by which two endpoints test whether multicast DNS passes between them: a question for an instance of the service that nobody has.
/// Other listeners take it for an ordinary question.
package struct MulticastProbe: Hashable, Sendable {
    package static let nonceBytes = 10

    package let nonce: [UInt8]

    /// - Returns: `nil` unless the nonce has 10 bytes.
    package init?(nonce: [UInt8]) {
        guard nonce.count == Self.nonceBytes else { return nil }
        self.nonce = nonce
    }

    package init(using random: inout some RandomNumberGenerator) { nonce = randomBytes(Self.nonceBytes, using: &random) }

    package var name: DNSName { .local([Base32.encode(nonce), "_device-relay", "_tcp"]) }

    package var message: DNSMessage {
        var message = DNSMessage(isResponse: false)
        message.questions = [DNSQuestion(name, .srv)]
        return message
    }
}

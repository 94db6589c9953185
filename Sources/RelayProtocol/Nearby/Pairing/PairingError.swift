// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Why an attempt to pair has failed, for the side that types the code or scans the link.
package enum PairingError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The devices do not have the same code or secret, or somebody is between them.
    case wrong
    /// The other device pairs with somebody else just now.
    case busy
    /// The other device does not pair, or no longer.
    case notPairing
    case timedOut
    /// The other device breaks the protocol.
    case invalidMessage
    /// The other device is this one.
    case ownDevice
    /// The device that answers is not the one that the link names.
    case otherDevice

    /// What is wrong and what to do, for users.
    package var description: String {
        switch self {
        case .wrong: "the code or link does not fit; look at what the other device shows now, and try again"
        case .busy: "the other device is pairing with another one; try again in half a minute"
        case .notPairing: "the other device does not pair; make it visible there, and try again"
        case .timedOut: "the other device took too long; look at the code that it shows now, and try again"
        case .invalidMessage: "the other device does not follow the protocol of pairing"
        case .ownDevice: "a device cannot pair with itself"
        case .otherDevice: "another device than that of the link answers"
        }
    }
}

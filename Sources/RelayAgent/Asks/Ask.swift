// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation

/// A question to the person at this device, as the API shows it. Each text of the other device is its own claim.
package struct Ask: Codable, Hashable, Sendable, Identifiable {
    package enum Kind: String, Codable, Sendable {
        /// Whether a URI is opened.
        case launch
        /// Whether a page of the local network is opened for a new device.
        case localPage
        /// Whether files, links or texts are taken.
        case transfer
        /// Whether a new device is approved. The routes of its endpoint answer it.
        case newDevice
    }

    package struct Device: Codable, Hashable, Sendable {
        package var id: String
        package var endpoint: String
        package var name: String
        package var new: Bool
        /// Whether nobody has compared its words yet.
        package var unverified: Bool
        /// Whether it is another person's.
        package var paired: Bool
    }

    package var id: String
    package var kind: Kind
    package var device: Device
    package var uri: String?
    /// The installed programs that can open the URI; the first one does if the answer names none.
    package var handlers: [LinkHandler]?
    /// The names of files.
    package var name: String?
    /// How many files, links and texts.
    package var count: Int?
    /// In bytes.
    package var size: Int64?
    /// The end of the question; `nil` if it waits until it is answered.
    package var expires: Date?
    /// Whether the answer can be `always`.
    package var canAlways: Bool
}

/// What the person answers.
package enum AskAnswer: Hashable, Sendable {
    /// - handler: The id of the program that opens the URI; `nil` for the first one of the question.
    case once(handler: String? = nil)
    /// Also from now on, for this one device, until a time.
    case always(until: Date, handler: String? = nil)
    case no
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What a token may do. A scope is the same word in the settings, the API and the documentation.
package enum APIScope: String, Codable, CaseIterable, Comparable, Sendable {
    /// Read the devices of the account.
    case devices = "devices:read"
    /// Launch URIs.
    case launch
    /// Call app services, and diagnose.
    case call
    /// Read and cancel the commands of all tokens and of the person.
    case commands
    /// Read the files that devices share.
    case files
    /// Send files, links and texts.
    case share
    /// Answer what waits for a person.
    case asks
    /// Change what devices may do without a question.
    case grants
    /// Read who did what.
    case audit
    /// Have changes sent to an address.
    case webhooks

    package static func < (first: APIScope, second: APIScope) -> Bool { first.rawValue < second.rawValue }

    /// Whether a person has to confirm a token with this scope at a terminal: it decides in the person's place.
    package var needsQuestion: Bool { self == .asks || self == .grants }
}

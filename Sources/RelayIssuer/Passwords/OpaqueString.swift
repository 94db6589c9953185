// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol

/// The form in which passwords are hashed and compared (RFC 8265 §4, profile OpaqueString). Systems encode the same characters in different
/// ways: an "é" has one code point or two.
enum OpaqueString {
    /// Replaces Unicode spaces by the ASCII space, and composes characters (NFC).
    static func prepare(_ password: Secret<String>) -> Secret<String> {
        var mapped = String.UnicodeScalarView()
        for scalar in password.exposed.unicodeScalars {
            mapped.append(scalar.properties.generalCategory == .spaceSeparator ? " " : scalar)
        }
        return Secret(String(mapped).precomposedStringWithCanonicalMapping)
    }

    /// Whether the profile allows all characters of the password. It excludes control characters.
    static func isAllowed(_ password: Secret<String>) -> Bool {
        password.exposed.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Why a text is not a valid identifier.
package struct IdentifierError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of error.
    package enum Reason: Hashable, Sendable {
        /// The number of characters is wrong.
        case wrongLength(expected: Int, found: Int)
        /// A character is not permitted. The offset counts UTF-8 bytes from 0.
        case invalidCharacter(offset: Int)
    }

    /// The kind of error.
    package let reason: Reason

    init(_ reason: Reason) { self.reason = reason }

    /// One line that contains nothing from the text.
    package var description: String {
        switch reason {
        case .wrongLength(let expected, let found): "an identifier has \(expected) characters, this one has \(found)"
        case .invalidCharacter(let offset): "an identifier cannot have this character at position \(offset + 1)"
        }
    }
}

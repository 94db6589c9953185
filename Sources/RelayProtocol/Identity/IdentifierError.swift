// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Why a text is not an identifier.
public struct IdentifierError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What is wrong with the text.
    public enum Reason: Hashable, Sendable {
        /// It has another number of characters.
        case wrongLength(expected: Int, found: Int)
        /// A character that cannot stand there; counted from 0 in UTF-8 bytes.
        case invalidCharacter(offset: Int)
    }

    /// What is wrong with the text.
    public let reason: Reason

    init(_ reason: Reason) { self.reason = reason }

    /// One line; holds nothing of the text itself.
    public var description: String {
        switch reason {
        case .wrongLength(let expected, let found): "an identifier has \(expected) characters, this one has \(found)"
        case .invalidCharacter(let offset): "an identifier cannot have this character at position \(offset + 1)"
        }
    }
}

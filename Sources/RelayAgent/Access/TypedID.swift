// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Ids that a person gives to commands.
enum TypedID {
    private static let letters = Array("abcdefghijklmnopqrstuvwxyz234567".utf8)

    /// 16 random letters and digits. In Base64 it could begin with `-`, and would be an option.
    static func make() -> String { String(decoding: (0..<16).compactMap { _ in letters.randomElement() }, as: UTF8.self) }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Foundation

extension URL {
    /// The URL with exactly this text. `URL(string:)` encodes again what it takes for invalid, and so leads elsewhere.
    /// - Returns: `nil` if Foundation does not take the text as it is.
    package init?(exactly text: String) {
        self.init(string: text, encodingInvalidCharacters: false)
        guard absoluteString.utf8.elementsEqual(text.utf8) else { return nil }
    }
}

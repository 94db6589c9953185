// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The identity of a person at an issuer.
package struct Identity: Hashable, Sendable {
    /// The issuer's URL; `embedded` for the issuer in this process, independent of its current URL.
    package var issuer: String
    package var subject: String

    package init(issuer: String, subject: String) {
        self.issuer = issuer
        self.subject = subject
    }
}

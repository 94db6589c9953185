// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Crypto
import RelayProtocol

/// A native public client that registered itself (RFC 7591). Its name is not verified.
///
/// The issuer does not store clients, because anyone may register any number of them. The id contains the name, and a code of the issuer
/// for each redirect URI. Its text is `dynamic.NAME.CODES`, or `dynamic.CODES` without a name.
package struct RegisteredClient: Hashable, Sendable {
    static let maximumRedirects = 4
    static let maximumNameCharacters = 64
    /// The first label of the ids.
    private static let prefix = "dynamic"
    private static let codeBytes = 16

    package let id: String
    package let name: String
    private let codes: [[UInt8]]

    package init(name: String, redirects: [RedirectURI], by key: SymmetricKey) {
        self.name = name
        codes = redirects.map { RegisteredClient.code(name, $0, by: key) }
        let labels = name.isEmpty ? [codes.flatMap(\.self)] : [Array(name.utf8), codes.flatMap(\.self)]
        id = ([RegisteredClient.prefix] + labels.map(Base64.url.encode)).joined(separator: ".")
    }

    /// Parses an id, and does not check its codes. The id is valid only for redirect URIs that `has(_:by:)` accepts.
    /// - Returns: `nil` if the format is wrong.
    package init?(id: String) {
        let labels = id.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).map { String(Substring($0)) }
        let parts = labels.dropFirst().compactMap { Base64.url.decode($0) }
        guard (2...3).contains(labels.count), labels[0].utf8.elementsEqual(RegisteredClient.prefix.utf8), parts.count == labels.count - 1,
            let codes = parts.last, !codes.isEmpty, codes.count.isMultiple(of: RegisteredClient.codeBytes),
            codes.count / RegisteredClient.codeBytes <= RegisteredClient.maximumRedirects,
            let name = parts.count == 2 ? String(validating: parts[0], as: UTF8.self) : "", RegisteredClient.isName(name)
        else { return nil }
        self.id = id
        self.name = name
        self.codes = stride(from: 0, to: codes.count, by: RegisteredClient.codeBytes).map {
            Array(codes[$0..<($0 + RegisteredClient.codeBytes)])
        }
    }

    /// Whether the issuer registered the redirect URI for a client of this name.
    package func has(_ redirect: RedirectURI, by key: SymmetricKey) -> Bool {
        codes.contains(RegisteredClient.code(name, redirect, by: key))
    }

    /// Returns the text that people see for the id of any client. No client's name is verified.
    static func shown(_ id: String) -> String {
        let name = name(of: id)
        return name.isEmpty ? "an app" : name
    }

    /// Returns the same, but nothing for a client without a name.
    static func name(of id: String) -> String { RegisteredClient(id: id)?.name ?? id }

    static func isName(_ text: String) -> Bool {
        text.unicodeScalars.count <= maximumNameCharacters && DisplayText.isPlain(text)
    }

    private static func code(_ name: String, _ redirect: RedirectURI, by key: SymmetricKey) -> [UInt8] {
        // Neither text contains a NUL.
        Array(HMAC<SHA256>.authenticationCode(for: Array("\(name)\0\(redirect.registered)".utf8), using: key).prefix(codeBytes))
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The fields of a form (`application/x-www-form-urlencoded`).
package struct Form {
    package static let maximumBytes = 16 << 10
    static let maximumFields = 32

    private var fields: [String: String] = [:]

    package init(parsing body: [UInt8]) throws(OAuthError) {
        guard body.count <= Form.maximumBytes else {
            throw OAuthError(.invalidRequest, "the form has more than \(Form.maximumBytes) bytes", status: 413)
        }
        let pairs = body.split(separator: UInt8(ascii: "&"), maxSplits: Form.maximumFields)
        guard pairs.count <= Form.maximumFields else {
            throw OAuthError(.invalidRequest, "the form has more than \(Form.maximumFields) fields")
        }
        for pair in pairs {
            let halves = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = halves.first.flatMap(FormCoding.decode), let value = halves.count == 2 ? FormCoding.decode(halves[1]) : ""
            else {
                throw OAuthError(.invalidRequest, "the form is not application/x-www-form-urlencoded in UTF-8, or has a control character")
            }
            guard fields.updateValue(value, forKey: name) == nil else {
                throw OAuthError(.invalidRequest, "a field of the form appears twice")
            }
        }
    }

    /// Sets the client. Throws if the form already names a different one.
    mutating func setClient(_ client: String) throws(OAuthError) {
        if let other = self["client_id"], !other.utf8.elementsEqual(client.utf8) {
            throw OAuthError(.invalidRequest, "client_id and the Authorization header name different clients")
        }
        fields["client_id"] = client
    }

    /// The fields as a query, sorted by name.
    package var encoded: String {
        fields.sorted { $0.key < $1.key }.map { "\(FormCoding.encode($0.key))=\(FormCoding.encode($0.value))" }.joined(separator: "&")
    }

    /// An empty field counts as missing (RFC 6749 §3.2).
    package subscript(name: String) -> String? {
        fields[name].flatMap { $0.isEmpty ? nil : $0 }
    }

    func required(_ name: String) throws(OAuthError) -> String {
        guard let value = self[name] else { throw OAuthError(.invalidRequest, "the form lacks \(name)") }
        return value
    }
}

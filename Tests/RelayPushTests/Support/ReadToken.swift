// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import RelayProtocol

/// A signed token (RFC 7519), read without the library that made it.
struct ReadToken {
    let header: [String: Any]
    let claims: [String: Any]
    let signed: [UInt8]
    let signature: [UInt8]

    init?(_ text: String) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3, let header = Self.object(parts[0]), let claims = Self.object(parts[1]),
            let signature = Base64.url.decode(parts[2])
        else { return nil }
        self.header = header
        self.claims = claims
        self.signed = Array("\(parts[0]).\(parts[1])".utf8)
        self.signature = signature
    }

    private static func object(_ text: String) -> [String: Any]? {
        guard let bytes = Base64.url.decode(text) else { return nil }
        return (try? JSONSerialization.jsonObject(with: Data(bytes))) as? [String: Any]
    }

    func isSigned(by key: P256.Signing.PublicKey) -> Bool {
        guard header["alg"] as? String == "ES256", let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature) else {
            return false
        }
        return key.isValidSignature(signature, for: signed)
    }

    /// A claim that is a whole number.
    func number(_ name: String) -> Int64? {
        guard let number = claims[name] as? NSNumber, number.doubleValue == number.doubleValue.rounded() else { return nil }
        return number.int64Value
    }
}

/// Reads a form as token endpoints get them; a name given twice makes it void.
func formFields(_ body: [UInt8]) -> [String: String]? {
    var fields: [String: String] = [:]
    for pair in String(decoding: body, as: UTF8.self).split(separator: "&") {
        let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let name = String(parts[0]).removingPercentEncoding,
            let value = parts[1].replacing("+", with: " ").removingPercentEncoding,
            fields.updateValue(value, forKey: name) == nil
        else { return nil }
    }
    return fields
}

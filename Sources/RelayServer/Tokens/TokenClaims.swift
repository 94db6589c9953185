// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The claims of an access token. Issuers use different types for the same claim.
struct TokenClaims: Decodable {
    private let claims: [String: Claim]

    private enum Claim: Decodable {
        case text(String)
        case texts([String])
        case time(NumericDate)
        /// The text members of an object; `nil` for members of another type, which are not decoded.
        case members([String: String?])
        case other

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let text = try? container.decode(String.self) {
                self = .text(text)
            } else if let time = try? container.decode(NumericDate.self) {
                self = .time(time)
            } else if let texts = try? container.decode([String].self) {
                self = .texts(texts)
            } else if let members = try? container.decode([String: Member].self) {
                self = .members(members.mapValues(\.text))
            } else {
                self = .other
            }
        }
    }

    private struct Member: Decodable {
        let text: String?
        init(from decoder: any Decoder) throws { self.text = try? decoder.singleValueContainer().decode(String.self) }
    }

    init(from decoder: any Decoder) throws {
        self.claims = try decoder.singleValueContainer().decode([String: Claim].self)
    }

    func text(_ name: String) -> String? {
        if case .text(let text) = claims[name] { text } else { nil }
    }

    /// A list of texts. A single text counts as a list of one.
    func texts(_ name: String) -> [String]? {
        switch claims[name] {
        case .text(let text): [text]
        case .texts(let texts): texts
        default: nil
        }
    }

    /// A time; `nil` if the claim is missing. Throws if it has another type.
    func time(_ name: String) throws(TokenError) -> Milliseconds? {
        switch claims[name] {
        case nil: nil
        case .time(let date): date.time
        default: throw .claims
        }
    }

    /// What the token is bound to.
    enum Binding: Equatable {
        case nothing
        case key(thumbprint: String)
        case other
    }

    var binding: Binding {
        guard let confirmation = claims["cnf"] else { return .nothing }
        guard case .members(let members) = confirmation, members.count == 1, case .some(.some(let thumbprint)) = members["jkt"] else {
            return .other
        }
        return .key(thumbprint: thumbprint)
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A link that admits a device to an account without a browser. It contains the relay's URL, the relay's id and a
/// single-use code. All but the URL is in the fragment, which browsers do not send.
///
/// Anyone who reads the link can join. So only `text` contains it; descriptions and mirrors do not.
public struct JoinLink: Hashable, Sendable {
    /// The relay's URL: scheme, host and port, without a path or trailing slash.
    public let origin: String
    /// The relay that the link leads to. The server at the origin must prove this id.
    public let relay: RelayID
    /// The code for the token endpoint.
    package let invite: Secret<String>
    /// The secret by which the inviting endpoint recognises the new device. The relay never sees it.
    package let proof: Secret<String>?
    /// The endpoint that made the invitation. It is present only with `proof`; the new device and the inviter then know each other.
    package let by: EndpointID?

    /// The size limit of a link: 2048 bytes.
    public static let maximumBytes = 2_048
    private static let maximumSecretBytes = 256

    /// - Parameter plainHTTP: Whether `http` is permitted. Only the operator of the relay can know whether the network is safe.
    package init(
        origin: String,
        relay: RelayID,
        invite: Secret<String>,
        proof: Secret<String>? = nil,
        by: EndpointID? = nil,
        plainHTTP: PlainHTTP = .refused
    ) throws(JoinLinkError) {
        let authority: Substring
        if origin.hasPrefix("https://") {
            authority = origin.dropFirst("https://".count)
        } else if origin.hasPrefix("http://") {
            guard plainHTTP == .allowed else { throw .plainHTTP }
            authority = origin.dropFirst("http://".count)
        } else {
            throw .scheme
        }
        guard JoinLink.isAuthority(authority) else { throw .address }
        guard JoinLink.isSecret(invite.exposed) else { throw .member("invite") }
        if let proof {
            guard JoinLink.isSecret(proof.exposed) else { throw .member("proof") }
        }
        guard by == nil || proof != nil else { throw .missing("proof") }
        self.origin = origin
        self.relay = relay
        self.invite = invite
        self.proof = proof
        self.by = by
    }

    /// Whether a link may lead to plain HTTP.
    public enum PlainHTTP: Sendable {
        /// Only `https`.
        case refused
        /// Also `http`, which lets others on the network read and change everything that is not end-to-end encrypted.
        case allowed
    }

    /// Parses a link that `relayd invite` or another device of the account created. Unknown members are ignored, so that
    /// later versions can add some.
    /// - Parameters:
    ///   - text: The link. What a person pastes around it is left out: spaces, quotes, brackets, and punctuation at its end. Its fragment may
    ///     be percent-encoded, as some programs do with a whole link.
    ///   - plainHTTP: Whether the link may lead to plain HTTP. Only the operator of the relay can know whether the network is safe.
    /// - Throws: `JoinLinkError`, whose description contains advice.
    public init(parsing text: String, plainHTTP: PlainHTTP = .refused) throws(JoinLinkError) {
        let text = JoinLink.withoutSurroundings(text)
        guard text.utf8.count <= JoinLink.maximumBytes else { throw .tooLong }
        let halves = text.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
        guard halves.count == 2, let address = halves.first, let fragment = halves.last else { throw .noFragment }
        var members: [Substring: Substring] = [:]
        for member in fragment.split(separator: ",") {
            let pair = member.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard pair.count == 2 else { continue }
            guard members.updateValue(pair[1], forKey: pair[0]) == nil else { throw .repeatedMember }
        }
        guard let relayText = members["relay"] else { throw .missing("relay") }
        guard let invite = members["invite"] else { throw .missing("invite") }
        guard let relay = RelayID(String(relayText)) else { throw .member("relay") }
        let by = try members["by"].map { (text) throws(JoinLinkError) in
            guard let by = EndpointID(String(text)) else { throw .member("by") }
            return by
        }
        try self.init(
            origin: String(decoding: address.utf8.last == UInt8(ascii: "/") ? address.utf8.dropLast() : address.utf8, as: UTF8.self),
            relay: relay,
            invite: Secret(String(invite)),
            proof: members["proof"].map { Secret(String($0)) },
            by: by,
            plainHTTP: plainHTTP
        )
    }

    /// The link, also a `PairingLink`, in a pasted text. No link begins or ends with one of the characters that are removed.
    package static func withoutSurroundings(_ text: String) -> String {
        let isAround = { (scalar: Unicode.Scalar) -> Bool in
            switch scalar.properties.generalCategory {
            case .control, .format, .spaceSeparator, .lineSeparator, .paragraphSeparator: true
            case .openPunctuation, .closePunctuation, .initialPunctuation, .finalPunctuation: true
            default: "<>\"'`.,;:!?".unicodeScalars.contains(scalar)
            }
        }
        var link = text.unicodeScalars.drop(while: isAround)
        while let last = link.last, isAround(last) { link.removeLast() }
        let bytes = Array(String(link).utf8)
        guard !bytes.contains(UInt8(ascii: "#")), let start = bytes.indices.first(where: { bytes[$0...].starts(with: "%23".utf8) }) else {
            return String(link)
        }
        // Only the separators and colons of addresses can be encoded: all else are letters, digits, - and _.
        let fragment = String(decoding: bytes[(start + 3)...], as: UTF8.self)
            .replacing(#/%2[Cc]/#, with: ",").replacing(#/%3[Dd]/#, with: "=").replacing(#/%3[Aa]/#, with: ":")
        return String(decoding: bytes[..<start], as: UTF8.self) + "#" + fragment
    }

    /// The decoded proof; `nil` if it is missing or not base64url.
    package var proofSecret: Secret<[UInt8]>? { proof.flatMap { Base64.url.decode($0.exposed) }.map(Secret.init) }

    /// The link itself. It is a secret: anyone who reads it can join the account until it is used or ten minutes have passed.
    /// Show it, as text or QR code, only to the user who asked for it, and keep it out of logs.
    public var text: String {
        "\(origin)/#relay=\(relay),invite=\(invite.exposed)" + (proof.map { ",proof=\($0.exposed)" } ?? "") + (by.map { ",by=\($0)" } ?? "")
    }

    /// Whether the text is a host with an optional port: no user, path, query, space or non-ASCII character.
    private static func isAuthority(_ authority: Substring) -> Bool {
        let host: Substring
        let rest: Substring
        if authority.hasPrefix("[") {
            guard let end = authority.firstIndex(of: "]") else { return false }
            host = authority[authority.index(after: authority.startIndex)..<end]
            rest = authority[authority.index(after: end)...]
            guard host.utf8.allSatisfy({ isHexDigit($0) || $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: ".") }) else { return false }
        } else {
            host = authority.prefix { $0 != ":" }
            rest = authority[host.endIndex...]
            guard host.utf8.allSatisfy({ isAlphanumeric($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: ".") }) else { return false }
        }
        guard (1...255).contains(host.utf8.count) else { return false }
        if rest.isEmpty { return true }
        let port = rest.dropFirst()
        guard rest.first == ":", port.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return false }
        return UInt16(port).map { $0 > 0 } ?? false
    }

    /// Whether the text is a valid secret: base64url, so that it needs no escapes.
    private static func isSecret(_ text: String) -> Bool {
        (1...maximumSecretBytes).contains(text.utf8.count)
            && text.utf8.allSatisfy { isAlphanumeric($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") }
    }

    private static func isAlphanumeric(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"): true
        default: false
        }
    }

    private static func isHexDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "F"), UInt8(ascii: "a")...UInt8(ascii: "f"): true
        default: false
        }
    }
}

extension JoinLink: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The relay's URL and id, without the secrets.
    public var description: String { "\(origin)/#relay=\(relay.label)…,(secret)" }
    /// The relay's URL and id, without the secrets.
    public var debugDescription: String { description }
    /// A mirror without the secrets.
    public var customMirror: Mirror { Mirror(self, children: ["origin": origin, "relay": relay.label]) }
}

/// Why a text is not a valid join link. It contains nothing from the text.
@nonexhaustive public enum JoinLinkError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The link exceeds `JoinLink.maximumBytes`.
    case tooLong
    /// The link has no fragment.
    case noFragment
    /// The link does not begin with `https://`.
    case scheme
    /// The link leads to plain HTTP, which is not permitted.
    case plainHTTP
    /// The address is not a host with an optional port.
    case address
    /// The member with this name is missing.
    case missing(String)
    /// The member with this name is invalid.
    case member(String)
    /// A member occurs twice.
    case repeatedMember

    /// What is wrong with the link and how to fix it, for users.
    public var description: String {
        switch self {
        case .tooLong: "a join link has at most \(JoinLink.maximumBytes) bytes"
        case .noFragment: "a join link has a part after #; was it cut off? Quote the link when you give it to a shell"
        case .scheme: "a join link begins with https://"
        case .plainHTTP:
            "this join link leads to plain HTTP, which others on the way can read; allow it explicitly if you trust the network"
        case .address: "the join link's address must be a host, perhaps with a port, and nothing else"
        case .missing(let name): "the join link has no \(name); was it cut off?"
        case .member(let name): "the join link's \(name) is damaged; ask for the link again"
        case .repeatedMember: "the join link says something twice"
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The way into an account without a browser: a link that says where the relay is, which key it has, and holds a code that
/// works once. All but the address stands in the fragment, which browsers do not send.
///
/// Whoever reads the link can join, so nothing prints it by accident: `text` is the only way to it.
public struct JoinLink: Hashable, Sendable {
    /// The relay's URL: scheme, host and port; no path, and no slash at the end.
    public let origin: String
    /// The relay that the link leads to. Whoever answers at the origin has to prove to be this one.
    public let relay: RelayID
    /// The code that the token endpoint takes.
    package let invite: Secret<String>
    /// What the inviting endpoint will know the newcomer by; the relay never sees it.
    package let proof: Secret<String>?
    /// The endpoint that made the invitation. Only beside `proof`: the newcomer and the inviter then know each other.
    package let by: EndpointID?

    /// The longest link that is read: 2048 bytes.
    public static let maximumBytes = 2_048
    private static let maximumSecretBytes = 256

    /// - Parameter plainHTTP: whether `http` may be taken. Only whoever set the relay up can know that nobody listens on the way.
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
        /// `https` alone.
        case refused
        /// `http` too, where others on the way can read and change everything that is not end to end.
        case allowed
    }

    /// Reads a link, as `relayd invite` or another device of the account made it. Members that are not known are passed over, so that
    /// later links may say more.
    /// - Parameters:
    ///   - text: The link, without anything around it.
    ///   - plainHTTP: Whether the link may lead to plain HTTP. Only whoever set the relay up can know that nobody listens on the way.
    /// - Throws: `JoinLinkError`, whose description says what to do.
    public init(parsing text: String, plainHTTP: PlainHTTP = .refused) throws(JoinLinkError) {
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

    /// The proof's bytes, as codes are made with them; `nil` without one, or with one that is no base64url.
    package var proofSecret: Secret<[UInt8]>? { proof.flatMap { Base64.url.decode($0.exposed) }.map(Secret.init) }

    /// The link itself: a secret, for whoever reads it can join the account until it was used or ten minutes have passed. Show it,
    /// as text or QR code, to nobody but the person who asked for it, and keep it out of logs.
    public var text: String {
        "\(origin)/#relay=\(relay),invite=\(invite.exposed)" + (proof.map { ",proof=\($0.exposed)" } ?? "") + (by.map { ",by=\($0)" } ?? "")
    }

    /// A host, perhaps with a port, and nothing else: no user, path, query, space or character outside of ASCII.
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

    /// A secret of the link is base64url, so that it needs no escapes.
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
    /// Where it leads, without what opens the door.
    public var description: String { "\(origin)/#relay=\(relay.label)…,(secret)" }
    /// Where it leads, without what opens the door.
    public var debugDescription: String { description }
    /// Shows nothing of the secrets.
    public var customMirror: Mirror { Mirror(self, children: ["origin": origin, "relay": relay.label]) }
}

/// Why a text is no join link. Holds nothing of the text.
public enum JoinLinkError: Error, Hashable, Sendable, CustomStringConvertible {
    /// It has more than `JoinLink.maximumBytes` bytes.
    case tooLong
    /// It has no part after `#`.
    case noFragment
    /// It does not begin with `https://`.
    case scheme
    /// It leads to plain HTTP, which was not allowed.
    case plainHTTP
    /// The address is not a host with perhaps a port.
    case address
    /// The member with this name is not there.
    case missing(String)
    /// The member with this name is damaged.
    case member(String)
    /// A member is there twice.
    case repeatedMember

    /// What is wrong with the link and what to do, for people.
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

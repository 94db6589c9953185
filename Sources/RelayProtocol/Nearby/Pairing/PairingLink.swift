// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A link by which two devices pair without an account: `device-relay-pair:#id=…,secret=…,at=…`. It names the device that shows it, as text or
/// QR code, the addresses where that device listens, and a secret that serves one use.
///
/// Anyone who reads the link can pair. So only `text` contains the secret; descriptions and mirrors do not.
public struct PairingLink: Hashable, Sendable {
    /// Where the device listens. In the link's text a dash is between address and port, because it is part of neither and no program
    /// encodes it.
    package struct Place: Hashable, Sendable {
        package let address: IPAddress
        package let port: UInt16

        /// - Returns: `nil` for an address that other devices cannot reach by these bytes alone (loopback, multicast, link-local), and for
        ///   a port below 1024, which the system gives to no listener.
        package init?(_ address: IPAddress, port: UInt16) {
            guard !address.isLoopback, !address.isMulticast, !address.isLinkLocal, port >= 1_024 else { return nil }
            self.address = address
            self.port = port
        }
    }

    /// The device that shows the link. The one that answers must prove this id.
    public let id: EndpointID
    package let secret: Secret<[UInt8]>
    /// 1 to 8. Which of them are dialled is the decision of the dialer.
    package let places: [Place]

    /// The size limit of a link: 1024 bytes.
    public static let maximumBytes = 1_024
    package static let secretBytes = 16
    package static let maximumPlaces = 8
    package static let scheme = "device-relay-pair"

    /// - Parameters:
    ///   - secret: 16 bytes.
    ///   - places: 1 to 8.
    package init(id: EndpointID, secret: Secret<[UInt8]>, places: [Place]) throws(PairingLinkError) {
        guard secret.exposed.count == Self.secretBytes else { throw .member("secret") }
        guard !places.isEmpty else { throw .missing("at") }
        guard places.count <= Self.maximumPlaces else { throw .tooManyAddresses }
        self.id = id
        self.secret = secret
        self.places = places
    }

    /// Parses a link that another device shows. Members with unknown names are ignored, so that later versions can add some.
    /// - Parameter text: The link. What a person pastes around it is left out: spaces, quotes, brackets, and punctuation at its end. Its
    ///   fragment may be percent-encoded, as some programs do with a whole link.
    /// - Throws: `PairingLinkError`, whose description contains advice.
    public init(parsing text: String) throws(PairingLinkError) {
        let link = JoinLink.withoutSurroundings(text)
        guard link.utf8.count <= Self.maximumBytes else { throw .tooLong }
        guard link.utf8.starts(with: "\(Self.scheme):".utf8) else { throw .scheme }
        let rest = link.utf8.dropFirst(Self.scheme.utf8.count + 1)
        guard rest.first == UInt8(ascii: "#") else { throw .noFragment }
        var members: [String: [Substring.UTF8View]] = [:]
        for member in rest.dropFirst().split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false) {
            let pair = member.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard pair.count == 2 else { throw .noMember }
            members[String(decoding: pair[0], as: UTF8.self), default: []].append(pair[1])
        }
        func only(_ name: String) throws(PairingLinkError) -> String {
            guard let values = members[name], let value = values.first else { throw .missing(name) }
            guard values.count == 1 else { throw .repeatedMember(name) }
            return String(decoding: value, as: UTF8.self)
        }
        guard let id = EndpointID(try only("id")) else { throw .member("id") }
        guard let secret = Base64.url.decode(try only("secret")) else { throw .member("secret") }
        let places = try (members["at"] ?? []).map { (text) throws(PairingLinkError) in
            guard let place = Place(parsing: text) else { throw .member("at") }
            return place
        }
        try self.init(id: id, secret: Secret(secret), places: places)
    }

    /// The link itself. It is a secret: anyone who reads it can pair with the device until it is used or the device stops pairing.
    /// Show it, as text or QR code, only to the person who asked for it, and keep it out of logs.
    public var text: String {
        "\(Self.scheme):#id=\(id),secret=\(Base64.url.encode(secret.exposed))" + places.map { ",at=\($0.text)" }.joined()
    }
}

extension PairingLink.Place {
    fileprivate init?(parsing text: Substring.UTF8View) {
        guard let dash = text.firstIndex(of: UInt8(ascii: "-")), let address = IPAddress(parsing: text[..<dash]) else { return nil }
        let digits = text[text.index(after: dash)...]
        guard digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), digits.first != UInt8(ascii: "0"),
            let port = UInt16(String(decoding: digits, as: UTF8.self))
        else { return nil }
        self.init(address, port: port)
    }

    fileprivate var text: String { "\(address)-\(port)" }
}

extension PairingLink: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The device's id, without secret and addresses.
    public var description: String { "\(Self.scheme):#id=\(id.label)…,(secret)" }
    /// The device's id, without secret and addresses.
    public var debugDescription: String { description }
    /// A mirror without secret and addresses.
    public var customMirror: Mirror { Mirror(self, children: ["id": id.label]) }
}

/// Why a text is not a valid pairing link. It contains nothing from the text.
@nonexhaustive public enum PairingLinkError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The link exceeds `PairingLink.maximumBytes`.
    case tooLong
    /// The link does not begin with `device-relay-pair:`.
    case scheme
    /// The link has no fragment.
    case noFragment
    /// A part of the fragment is not a name with a value.
    case noMember
    /// The member with this name is missing.
    case missing(String)
    /// The member with this name is invalid.
    case member(String)
    /// The member with this name occurs twice.
    case repeatedMember(String)
    /// The link has more addresses than `PairingLink` can have.
    case tooManyAddresses

    /// What is wrong with the link and how to fix it, for users.
    public var description: String {
        switch self {
        case .tooLong: "a pairing link has at most \(PairingLink.maximumBytes) bytes"
        case .scheme: "a pairing link begins with device-relay-pair:"
        case .noFragment: "a pairing link has a part after #; was it cut off? Quote the link when you give it to a shell"
        case .noMember: "the pairing link is damaged; was it cut off?"
        case .missing(let name): "the pairing link has no \(name); was it cut off?"
        case .member(let name): "the pairing link's \(name) is damaged; scan or copy the link again"
        case .repeatedMember(let name): "the pairing link says its \(name) twice"
        case .tooManyAddresses: "a pairing link has at most \(PairingLink.maximumPlaces) addresses"
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What an endpoint says of itself on a local network: the strings of its TXT record. Only endpoints that share keys with it recognise it.
/// Others do not learn which endpoints it knows, or how many.
package struct Advertisement: Hashable, Sendable {
    /// The number of confirmed endpoints and pairings that can recognise it.
    package static let maximumPeers = 128
    /// Tags are filled up to a multiple of this, so that their number tells little.
    package static let tagStep = 8
    private static let tagBytes = 4
    private static let tagsPerString = 60
    private static let maximumTags = 3 * tagsPerString
    private static let maximumNameBytes = 120

    /// For people in the same room, while a person has made the device visible.
    package struct Visible: Hashable, Sendable {
        package enum Mode: String, Sendable {
            case pair, receive
        }

        package var name: String
        package var kind: String
        package var mode: Mode

        package init(name: String, kind: String, mode: Mode) {
            self.name = name
            self.kind = kind
            self.mode = mode
        }
    }

    /// Hours since 1970, as 4 bytes, and 8 random bytes.
    package private(set) var nonce: [UInt8]
    /// Sorted.
    package private(set) var tags: [[UInt8]]
    package var visible: Visible?

    /// - Parameters:
    ///   - hour: Since 1970.
    ///   - peers: The keys with each endpoint that may recognise it; those above the maximum are left out.
    package init(
        of own: EndpointID,
        hour: UInt32,
        for peers: some Collection<PairKeys>,
        visible: Visible? = nil,
        using random: inout some RandomNumberGenerator
    ) {
        let nonce = stride(from: 24, through: 0, by: -8).map { UInt8(hour >> UInt32($0) & 0xFF) } + randomBytes(8, using: &random)
        var tags = peers.prefix(Self.maximumPeers).map { $0.tag(of: own, nonce: nonce) }
        while tags.isEmpty || tags.count % Self.tagStep != 0 { tags.append(randomBytes(Self.tagBytes, using: &random)) }
        self.nonce = nonce
        self.tags = tags.sorted { $0.lexicographicallyPrecedes($1) }
        self.visible = visible
    }

    /// Since 1970.
    package var hour: UInt32 { nonce.prefix(4).reduce(0) { $0 << 8 | UInt32($1) } }

    /// Whether it is recent, by the own clock. An old one may be a copy, which would learn from a dial that its owner is known.
    package func isRecent(at hour: UInt32) -> Bool { Self.isRecent(self.hour, at: hour) }

    package static func isRecent(_ hour: UInt32, at now: UInt32) -> Bool { (-1...2).contains(Int64(now) - Int64(hour)) }

    /// Whether the endpoint may have made it: by its tag for these keys.
    package func isFrom(_ endpoint: EndpointID, _ keys: PairKeys) -> Bool {
        let tag = keys.tag(of: endpoint, nonce: nonce)
        var (low, high) = (0, tags.count)
        while low < high {
            let middle = (low + high) / 2
            if tags[middle].lexicographicallyPrecedes(tag) { low = middle + 1 } else { high = middle }
        }
        return low < tags.count && tags[low] == tag
    }

    // MARK: The record

    /// The strings of the TXT record, each `key=value` (RFC 6763 §6.3).
    package var strings: [[UInt8]] {
        var strings = [Array("v=1".utf8), Array("n=".utf8) + nonce]
        for (number, start) in stride(from: 0, to: tags.count, by: Self.tagsPerString).enumerated() {
            strings.append(Array("t\(number)=".utf8) + tags[start..<min(start + Self.tagsPerString, tags.count)].joined())
        }
        if let visible {
            var name = visible.name
            while name.utf8.count > Self.maximumNameBytes { name.removeLast() }
            strings += ["d=\(name)", "k=\(visible.kind)", "m=\(visible.mode.rawValue)"].map { Array($0.utf8) }
        }
        return strings
    }

    /// - Returns: `nil` if the strings are no advertisement of version 1. What is invalid of a visible device makes it only invisible.
    package init?(strings: [[UInt8]]) {
        var fields: [String: [UInt8]] = [:]
        for string in strings {
            guard let equals = string.firstIndex(of: UInt8(ascii: "=")), equals <= 9 else { continue }
            // The first of equal keys counts (RFC 6763 §6.4).
            let key = String(decoding: string[..<equals], as: UTF8.self).lowercased()
            if fields[key] == nil { fields[key] = Array(string[(equals + 1)...]) }
        }
        guard fields["v"] == Array("1".utf8), let nonce = fields["n"], nonce.count == 12 else { return nil }
        let bytes = ["t0", "t1", "t2"].flatMap { fields[$0] ?? [] }
        guard bytes.count % Self.tagBytes == 0, bytes.count <= Self.maximumTags * Self.tagBytes else { return nil }
        let tags = stride(from: 0, to: bytes.count, by: Self.tagBytes).map { Array(bytes[$0..<$0 + Self.tagBytes]) }
        // The search needs their order. An own advertisement has it.
        guard zip(tags, tags.dropFirst()).allSatisfy({ !$1.lexicographicallyPrecedes($0) }) else { return nil }
        self.nonce = nonce
        self.tags = tags
        self.visible = Visible(fields)
    }
}

extension Advertisement.Visible {
    fileprivate init?(_ fields: [String: [UInt8]]) {
        func text(_ key: String) -> String? {
            guard let text = fields[key].flatMap({ String(validating: $0, as: UTF8.self) }), DisplayText.isPlain(text) else { return nil }
            return text
        }
        guard let name = text("d"), DisplayText.isVisible(name), let kind = text("k"), let mode = text("m").flatMap(Mode.init) else {
            return nil
        }
        self.init(name: name, kind: kind, mode: mode)
    }
}

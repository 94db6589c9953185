// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Five words for the keys of an endpoint and of its device, which people compare on two screens or read aloud. They are 80 bits of a hash,
/// so an attacker cannot make other keys with the same words. A person who approves an endpoint by these words approves exactly these keys.
///
/// Each word is a proquint: five letters for 16 bits, consonants and vowels in turn (D. S. Wilkerson, "A Proposal for Proquints",
/// arXiv:0901.4016). So there is no list of words, and no language is needed.
public struct FingerprintWords: Hashable, Sendable, CustomStringConvertible {
    /// The five words, in lower-case ASCII.
    public let words: [String]

    /// The words of an endpoint.
    /// - Parameters:
    ///   - endpoint: The endpoint; its id is the hash of its identity key.
    ///   - system: Its device; the id is the hash of the system key. An approved endpoint also makes its device known.
    package init(endpoint: EndpointID, system: SystemID) {
        let digest = Digest256(hashing: Purpose.fingerprint.statement(endpoint.digest.bytes + system.digest.bytes)).bytes
        words = (0..<Self.count).map { Self.word(UInt16(digest[2 * $0]) << 8 | UInt16(digest[2 * $0 + 1])) }
    }

    /// The words joined with hyphens.
    public var description: String { words.joined(separator: "-") }

    private static let count = 5
    private static let consonants = Array("bdfghjklmnprstvz".utf8)
    private static let vowels = Array("aiou".utf8)

    /// The proquint of a number, the most significant bits first.
    static func word(_ number: UInt16) -> String {
        func letter(_ letters: [UInt8], _ shift: UInt16) -> UInt8 { letters[Int(number >> shift) & (letters.count - 1)] }
        let letters = [
            letter(consonants, 12), letter(vowels, 10), letter(consonants, 6), letter(vowels, 4), letter(consonants, 0),
        ]
        return String(decoding: letters, as: UTF8.self)
    }
}

/// The code by which people check that two endpoints have each other's keys: both devices show the same ten words.
///
/// It is the fingerprint words of both endpoints and not a hash of both, because an attacker between the devices would have two keys to
/// choose, one for each side, and would find two equal hashes of 80 bits after 2^40 attempts. For equal words it needs 2^80 here.
public struct VerificationCode: Hashable, Sendable, CustomStringConvertible {
    /// The words of the endpoint with the smaller id.
    public let first: FingerprintWords
    /// The words of the endpoint with the larger id.
    public let second: FingerprintWords

    /// The code of two endpoints, whatever their order.
    package init(_ one: EndpointRecord, _ other: EndpointRecord) {
        self.init((one.endpointID, one.systemID), (other.endpointID, other.systemID))
    }

    package init(_ one: (EndpointID, SystemID), _ other: (EndpointID, SystemID)) {
        let (smaller, larger) = one.0 < other.0 ? (one, other) : (other, one)
        first = FingerprintWords(endpoint: smaller.0, system: smaller.1)
        second = FingerprintWords(endpoint: larger.0, system: larger.1)
    }

    /// The ten words.
    public var words: [String] { first.words + second.words }

    /// Both fingerprints, with a space between them.
    public var description: String { "\(first) \(second)" }
}

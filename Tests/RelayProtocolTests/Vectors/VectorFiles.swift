// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

@testable import RelayProtocol

/// `docs/vectors`: test vectors for other implementations of the protocol. Its `README.md` documents the fields.
enum VectorFolder {
    static let url = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../docs/vectors").standardizedFileURL

    static func read<File: Decodable>(_ type: File.Type, _ name: String) throws -> File {
        try JSONDecoder().decode(type, from: Data(contentsOf: url.appending(path: "\(name).json")))
    }

    static func write(_ file: some Encodable, _ name: String) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        try (encoder.encode(file) + Data("\n".utf8)).write(to: url.appending(path: "\(name).json"))
    }

    static func keys() throws -> KeyVectors { try read(KeyVectors.self, "keys") }
}

struct ValueVectors: Codable {
    var valid: [Valid]
    var refusedCBOR: [RefusedCBOR]
    var refusedJSON: [RefusedJSON]

    struct Valid: Codable {
        var name: String
        /// A text, because it is compared by bytes.
        var json: String
        var cbor: String
    }

    struct RefusedCBOR: Codable {
        var name: String
        var cbor: String
        var error: String
    }

    struct RefusedJSON: Codable {
        var name: String
        var json: String
        var error: String
    }
}

struct IdentityVectors: Codable {
    var account: String
    var valid: [Valid]
    var sequences: [Sequence]
    var refused: [Refused]

    enum Kind: String, Codable, CaseIterable {
        case endpointRecord, appRegistration, voucher, revocation
    }

    struct Valid: Codable {
        var name: String
        var kind: Kind
        var purpose: String
        /// The signing key.
        var signer: String
        var fields: VectorJSON
        var body: String
        var signature: String
        var encoded: String
        /// Only in an endpoint record: the bytes that the system key signed, without the purpose.
        var membership: String?
        /// Only in a voucher: the record that it vouches for.
        var record: String?
    }

    /// Records of one endpoint, offered one after the other.
    struct Sequence: Codable {
        var name: String
        var steps: [Step]

        struct Step: Codable {
            var encoded: String
            var error: String?
        }
    }

    struct Refused: Codable {
        var name: String
        var kind: Kind
        /// The key that must have signed.
        var signer: String
        var encoded: String
        var record: String?
        var error: String
    }

    func record(of signer: String) -> [UInt8] {
        hex(valid.first { $0.kind == .endpointRecord && $0.signer == signer }?.encoded ?? "")
    }

    func encoded(_ name: String) -> [UInt8] { hex(valid.first { $0.name == name }?.encoded ?? "") }
}

struct FingerprintVectors: Codable {
    var fingerprints: [Fingerprint]
    var codes: [Code]

    struct Fingerprint: Codable {
        var name: String
        var endpoint: String
        var system: String
        /// The input of the hash.
        var statement: String
        var words: String
    }

    struct Code: Codable {
        /// The names of the fingerprints of the two endpoints, in the order of their roles.
        var own: String
        var other: String
        var code: String
    }
}

struct NearbyVectors: Codable {
    var pairs: [Pair]

    /// Two endpoints with link keys: names of keys.
    struct Pair: Codable {
        var name: String
        var identities: [String]
        var links: [String]
        /// The salt of HKDF.
        var salt: String
        var tagKey: String
        var knockKey: String
        var candidatesKey: String
        var tags: [Tag]
        var knocks: [KnockVector]
        var candidates: [CandidatesVector]
        /// Texts that the second endpoint does not open, or whose content it rejects.
        var refusedCandidates: [RefusedCandidates]
    }

    struct CandidatesVector: Codable {
        var tunnel: String
        var sender: String
        var port: UInt16
        /// As the sender names them.
        var addresses: [String]
        var nonce: String
        var associatedData: String
        /// The content, CBOR.
        var content: String
        var sealed: String
    }

    struct RefusedCandidates: Codable {
        var name: String
        var tunnel: String
        var sender: String
        var sealed: String
    }

    struct Tag: Codable {
        var advertiser: String
        var nonce: String
        var tag: String
    }

    struct KnockVector: Codable {
        var dialer: String
        var listener: String
        var kind: UInt8
        var challenge: String
        var nonce: String
        /// The input of the HMAC.
        var statement: String
        var proof: String
    }
}

struct PairingVectors: Codable {
    var commitments: [Commitment]
    var proofs: [Proof]
    var codes: [Code]
    var refusedCodes: [String]
    var links: [Link]
    var refusedLinks: [RefusedLink]

    /// `caller` and `shower` are names of keys.
    struct Commitment: Codable {
        var caller: String
        var shower: String
        var role: UInt8
        var round: UInt8
        var bit: Bool
        var nonce: String
        /// The input of the HMAC.
        var statement: String
        var commitment: String
    }

    struct Proof: Codable {
        var caller: String
        var shower: String
        var role: UInt8
        var secret: String
        /// The input of the HMAC.
        var statement: String
        var proof: String
    }

    struct Code: Codable {
        var typed: String
        var shown: String
        /// In the order of the rounds.
        var bits: String
    }

    struct Link: Codable {
        var name: String
        var link: String
        /// As this implementation writes it.
        var written: String
        var id: String
        var secret: String
        var places: [Place]
    }

    struct Place: Codable {
        /// 4 or 16 bytes.
        var address: String
        var port: UInt16
    }

    struct RefusedLink: Codable {
        var name: String
        var link: String
        var error: String
    }
}

struct InvitationVectors: Codable {
    var invitations: [Invitation]
    var refusedProofs: [RefusedProof]
    var refusedLinks: [RefusedLink]

    struct Invitation: Codable {
        var name: String
        var secret: String
        /// The new device.
        var endpoint: String
        /// The input of the HMAC.
        var statement: String
        var proof: String
        var origin: String
        var relay: String
        var invite: String
        var by: String
        var link: String
    }

    struct RefusedProof: Codable {
        var name: String
        var secret: String
        var endpoint: String
        var proof: String
    }

    struct RefusedLink: Codable {
        var name: String
        var link: String
        var error: String
    }
}

struct HelloVectors: Codable {
    var valid: [Hello]
    var refused: [Hello]

    struct Hello: Codable {
        var name: String
        var signer: String
        var relay: String
        var origin: String
        var nonce: String
        var token: String
        var record: String
        /// The signed statement, without the purpose.
        var statement: String
        var signature: String
    }
}

struct DPoPVectors: Codable {
    var valid: [Valid]
    var refused: [Refused]

    struct Valid: Codable {
        var name: String
        var signer: String
        /// The RFC 7638 thumbprint of the key, as in `cnf.jkt`.
        var thumbprint: String
        var method: String
        var url: String
        /// The verifier's clock, in milliseconds.
        var time: Int64
        var accessToken: String?
        var header: String
        var claims: String
        var proof: String
    }

    struct Refused: Codable {
        var name: String
        var method: String
        var url: String
        var time: Int64
        var accessToken: String?
        var proof: String
        var error: String
    }
}

struct CommandVectors: Codable {
    var account: String
    var relay: String
    /// The identity keys of the sender and the target.
    var sender: String
    var target: String
    /// The relay's time at which the target checks the commands.
    var time: Int64
    var commands: [Command]
    var receipts: [Receipt]
    var refused: [Refused]

    struct Seal: Codable {
        /// The agreement key of the recipient.
        var recipient: String
        /// The sender's ephemeral key of this seal.
        var ephemeral: String
        var info: String
        var associatedData: String
        var plain: String
        var key: String
        var ciphertext: String
    }

    struct Command: Codable {
        var name: String
        var header: VectorJSON
        var headerBytes: String
        var body: VectorJSON
        var seal: Seal
        var signature: String
        var encoded: String
        var digest: String
    }

    struct Receipt: Codable {
        var name: String
        var command: String
        var fields: VectorJSON
        var body: String
        var signature: String
        var encoded: String
        var reply: Reply?
    }

    struct Reply: Codable {
        var message: VectorJSON
        var seal: Seal
        var encoded: String
        var digest: String
    }

    enum Kind: String, Codable {
        case command, receipt, reply
    }

    struct Refused: Codable {
        var name: String
        var kind: Kind
        /// Only for a receipt or reply: the command that it answers.
        var command: String?
        var encoded: String
        /// Only for a receipt: the reply that came with it.
        var reply: String?
        var error: String
    }
}

struct ControlVectors: Codable {
    var valid: [Valid]
    var refused: [Refused]

    enum Side: String, Codable {
        case endpoint, relay
    }

    struct Valid: Codable {
        var name: String
        var from: Side
        var type: String
        var frame: String
    }

    /// Exactly one of `closes`, `answers` and `isIgnored` is present.
    struct Refused: Codable {
        var name: String
        var from: Side
        /// In hexadecimal, because it may not be valid text.
        var frame: String
        /// The WebSocket close code.
        var closes: Int?
        /// The code of the relay's `error`.
        var answers: String?
        var isIgnored: Bool?
    }
}

struct SessionVectors: Codable {
    var frames: [Frame]
    var streams: [Stream]
    var prefaces: [Preface]

    struct Frame: Codable {
        var name: String
        var type: UInt8
        var typeName: String
        var flags: UInt8
        var connection: UInt32
        var request: UInt32
        var metadata: VectorJSON?
        var message: String?
        var code: UInt16?
        var text: String?
        var credit: UInt32?
        /// Only in `ping` and `pong`.
        var value: String?
        var lastConnection: UInt32?
        var frame: String
    }

    /// The bytes that a side receives from the start of a session.
    struct Stream: Codable {
        var name: String
        /// The receiver is the TLS client.
        var bytes: String
        /// The code of the session error; absent if the stream is valid.
        var error: UInt16?
        var errorName: String?
    }

    struct Preface: Codable {
        var tunnel: String
        var token: String
        var bytes: String
    }
}

/// The name of an error in the vectors: that of its case.
func vectorName(of error: any Error) -> String {
    switch error {
    case let error as ValueSetError: return error.code.description
    case let error as DPoPError:
        return switch error {
        case .malformed: "malformed"
        case .algorithm: "algorithm"
        case .signature: "signature"
        case .method: "method"
        case .url: "url"
        case .time: "time"
        case .accessToken: "accessToken"
        }
    case let error as JoinLinkError:
        return switch error {
        case .tooLong: "tooLong"
        case .noFragment: "noFragment"
        case .scheme: "scheme"
        case .plainHTTP: "plainHTTP"
        case .address: "address"
        case .missing: "missing"
        case .member: "member"
        case .repeatedMember: "repeatedMember"
        }
    case let error as PairingLinkError:
        return switch error {
        case .tooLong: "tooLong"
        case .scheme: "scheme"
        case .noFragment: "noFragment"
        case .noMember: "noMember"
        case .missing: "missing"
        case .member: "member"
        case .repeatedMember: "repeatedMember"
        case .tooManyAddresses: "tooManyAddresses"
        }
    // Without the associated values.
    default: return String(String(describing: error).prefix { $0 != "(" })
    }
}

func vectorError(from work: () throws -> Void) -> String? {
    do {
        try work()
        return nil
    } catch {
        return vectorName(of: error)
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Bytes that the control channel carries as base64 and does not interpret. The kind defines the content and the size, so that the compiler
/// keeps blobs of different kinds apart.
package struct Blob<Kind: BlobKind>: Hashable, Sendable {
    package let bytes: [UInt8]

    package init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// The length of the largest blob of this kind in base64.
    static func maximumTextLength(_ limits: Limits) -> Int {
        let size =
            switch Kind.bound {
            case .limit(let limit): limits[limit]
            case .bytes(let range): range.upperBound
            }
        return (size + 2) / 3 * 4
    }
}

/// A kind of blob.
package protocol BlobKind: Sendable {
    static var bound: BlobBound { get }
}

/// How large a blob may be.
package enum BlobBound: Sendable {
    /// A configurable limit. A larger blob is rejected with `LimitExceeded`.
    case limit(Limit)
    /// A range that the format defines. Any other size is malformed.
    case bytes(ClosedRange<Int>)
}

/// The kinds of blob.
package enum BlobKinds {
    /// A signed endpoint record.
    package enum EndpointRecord: BlobKind { package static let bound = BlobBound.bytes(1...8 << 10) }
    /// A signed app registration.
    package enum AppRegistration: BlobKind { package static let bound = BlobBound.limit(.appRegistrationBytes) }
    /// One endpoint's signature over another's record.
    package enum Voucher: BlobKind { package static let bound = BlobBound.bytes(1...1 << 10) }
    /// One endpoint's statement that another one is revoked.
    package enum Revocation: BlobKind { package static let bound = BlobBound.bytes(1...1 << 10) }
    /// A command: header and sealed body.
    package enum Command: BlobKind { package static let bound = BlobBound.limit(.commandBytes) }
    /// The target's signed statement of a command's outcome.
    package enum Receipt: BlobKind { package static let bound = BlobBound.bytes(1...4 << 10) }
    /// The sealed reply to a command.
    package enum Reply: BlobKind { package static let bound = BlobBound.limit(.replyBytes) }
    /// The relay's challenge.
    package enum Nonce: BlobKind { package static let bound = BlobBound.bytes(32...32) }
    /// Identifies one process of an endpoint.
    package enum Instance: BlobKind { package static let bound = BlobBound.bytes(16...16) }
    /// r and s of a P-256 signature.
    package enum Signature: BlobKind { package static let bound = BlobBound.bytes(64...64) }
    /// The secret with which one endpoint enters a tunnel.
    package enum TunnelToken: BlobKind { package static let bound = BlobBound.bytes(32...32) }
    /// The sealed candidates of one side of a tunnel.
    package enum Candidates: BlobKind { package static let bound = BlobBound.bytes(1...1 << 10) }
    /// A subscriber's public P-256 point (RFC 8291).
    package enum PushPublicKey: BlobKind { package static let bound = BlobBound.bytes(65...65) }
    /// A subscriber's authentication secret (RFC 8291).
    package enum PushAuthSecret: BlobKind { package static let bound = BlobBound.bytes(16...16) }
}

extension Blob: JSONCodable {
    /// Standard base64 with padding (RFC 4648 §4). The size is checked by the length of the text, before decoding.
    package init(json: JSONValue) throws(JSONError) {
        let result = try json.withText { text -> Result<[UInt8], JSONError> in
            // The size after decoding, if the text is valid base64.
            let count = text.count / 4 * 3 - text.suffix(2).count { $0 == UInt8(ascii: "=") }
            switch Kind.bound {
            case .limit(let limit):
                do throws(LimitExceeded) {
                    try json.limits.check(limit, count)
                } catch {
                    return .failure(.tooLarge(error))
                }
            case .bytes(let range): guard range.contains(count) else { return .failure(json.invalid) }
            }
            guard let bytes = Base64.standard.decode(text) else { return .failure(json.invalid) }
            return .success(bytes)
        }
        self.bytes = try result.get()
    }

    package func write(to json: inout JSONWriter) { json.base64(bytes) }
}

extension Blob: CustomStringConvertible {
    /// Only the size, because the content may be private.
    package var description: String { "(\(bytes.count) bytes)" }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Crypto
import Foundation

/// The candidates of one side of a tunnel, sealed for the other side: a nonce of 12 bytes, then AES-256-GCM with the pair's key. The associated
/// data are the ids of tunnel and sender, so a relay cannot pass a text on in another tunnel, or back to its sender.
package struct SealedCandidates: Hashable, Sendable {
    private static let nonceBytes = 12

    package let blob: Blob<BlobKinds.Candidates>

    /// A text from the relay. Nothing of it is checked.
    package init(_ blob: Blob<BlobKinds.Candidates>) { self.blob = blob }

    /// Seals candidates.
    /// - Parameter nonce: A random one, for one text.
    package init(
        _ candidates: HostCandidates,
        for tunnel: TunnelID,
        from sender: EndpointID,
        with keys: PairKeys,
        nonce: AES.GCM.Nonce = AES.GCM.Nonce()
    ) throws {
        let box = try AES.GCM.seal(
            try candidates.content(),
            using: keys.candidates,
            nonce: nonce,
            authenticating: Self.associatedData(tunnel, sender)
        )
        blob = Blob(Array(nonce) + box.ciphertext + box.tag)
    }

    /// What tells a text from all others of its key.
    package var nonce: [UInt8] { Array(blob.bytes.prefix(Self.nonceBytes)) }

    /// Opens a text of the other side.
    /// - Returns: `nil` if it is for another tunnel, from another sender, changed, or breaks the format.
    package func open(for tunnel: TunnelID, from sender: EndpointID, with keys: PairKeys) -> HostCandidates? {
        guard let box = try? AES.GCM.SealedBox(combined: blob.bytes),
            let content = try? AES.GCM.open(box, using: keys.candidates, authenticating: Self.associatedData(tunnel, sender))
        else { return nil }
        return HostCandidates(content: Array(content))
    }

    static func associatedData(_ tunnel: TunnelID, _ sender: EndpointID) -> [UInt8] { tunnel.bytes + sender.digest.bytes }
}

extension HostCandidates {
    /// The content of a sealed text.
    package func content() throws -> [UInt8] {
        let content: ValueSet = ["port": .int(Int64(port)), "addresses": .array(addresses.map { .data($0.bytes) })]
        return try content.encodedBytes()
    }

    /// Reads the content of a sealed text. Unknown fields are ignored.
    package init?(content: [UInt8]) {
        guard let map = try? ValueSet(decoding: content), let port = map["port"]?.integer(as: UInt16.self),
            let list = map["addresses"]?.array, list.count <= Self.maximumAddresses
        else { return nil }
        var addresses: [IPAddress] = []
        for value in list {
            guard let bytes = value.data, let address = IPAddress(bytes: bytes) else { return nil }
            addresses.append(address)
        }
        self.init(port: port, addresses: addresses)
    }
}

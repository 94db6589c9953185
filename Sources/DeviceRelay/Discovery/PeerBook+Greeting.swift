// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What known endpoints say themselves, without the relay.
extension PeerBook {
    /// The revocations of endpoints that were never known here, which known endpoints may add in one process.
    static let maximumRevokedStrangers = 256

    /// Takes the record and the registrations that a known endpoint has sent. What is older or invalid changes nothing.
    mutating func greeted(by endpoint: EndpointID, record: [UInt8], registrations: [[UInt8]]) -> [Action] {
        guard isConfirmed(endpoint), !isRefused(endpoint), endpoint != own else { return [] }
        // The relay has no part in it, so its watchers hear of no error.
        return (try? renew(record, registrations, of: endpoint)) ?? []
    }

    /// Takes signed revocations that a known endpoint has sent. A revocation by an endpoint that is not verified counts until the relay lists
    /// the revoked endpoint. A revocation of an endpoint that was never known here counts in this process only, so that it takes no stored
    /// place: the next greeting repeats it.
    /// - Returns: Whether all were decided. Otherwise a signer is not known yet, or there are too many.
    mutating func heard(_ revocations: [[UInt8]]) -> (actions: [Action], areDecided: Bool) {
        var (actions, areDecided) = ([Action](), true)
        for bytes in revocations {
            guard let statement = try? Unverified<Revocation>(decoding: bytes) else { continue }
            let (endpoint, signer) = (statement.payload.endpoint, statement.payload.revoker)
            let isFinal = signer == endpoint || knowledge(of: signer) == .verified
            // The relay's next list restores an endpoint that is only shut out. A revocation by a verified endpoint prevents that.
            guard endpoint != own, !isRevoked(endpoint), isFinal || !isRefused(endpoint), !isRefused(signer) || signer == endpoint else {
                continue
            }
            let isStranger = isStranger(endpoint)
            guard !isStranger || revokedStrangers < Self.maximumRevokedStrangers else {
                areDecided = false
                continue
            }
            // An unverified signer cannot exclude an endpoint that is not confirmed anyway.
            guard isFinal || !isStranger else { continue }
            guard let taken = isFinal ? revoke(by: statement) : shutOut(by: statement) else {
                areDecided = false
                continue
            }
            if isStranger { revokedStrangers += 1 }
            actions += isStranger ? taken.filter { if case .storeRevocation = $0 { false } else { true } } : taken
        }
        return (actions, areDecided)
    }
}

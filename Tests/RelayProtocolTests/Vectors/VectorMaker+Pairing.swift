// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import RelayProtocol

extension VectorMaker {
    func pairing() throws -> PairingVectors {
        let (caller, shower) = ("phone.identity", "pc.identity")
        let hash = try PairingHash(caller: try keys.endpoint(caller), shower: try keys.endpoint(shower))
        let sides: [(PairingRole, [UInt8])] = [(.calls, Array(0..<32)), (.shows, Array(32..<64))]
        let commitments = [(0, false), (1, true), (26, true)].flatMap { round, bit in
            sides.map { role, nonce in
                PairingVectors.Commitment(
                    caller: caller,
                    shower: shower,
                    role: role.rawValue,
                    round: round,
                    bit: bit,
                    nonce: hex(nonce),
                    statement: hex(hash.statement(role, round: round, bit: bit)),
                    commitment: hex(hash.commitment(role, round: round, bit: bit, nonce: nonce))
                )
            }
        }
        let secret = Secret<[UInt8]>(Array(0..<16))
        let proofs = [PairingRole.calls, .shows].map { role in
            PairingVectors.Proof(
                caller: caller,
                shower: shower,
                role: role.rawValue,
                secret: hex(secret.exposed),
                statement: hex(hash.statement(role)),
                proof: hex(hash.proof(role, secret: secret))
            )
        }
        let codes = try ["00000000", "1234 5678", "1234-5678", " 0 0 0 0 - 0 0 4 2", "99999999"].map { typed in
            let code = try #require(PairingCode(parsing: typed))
            return PairingVectors.Code(
                typed: typed,
                shown: code.text,
                bits: code.roundBits.map { $0 ? "1" : "0" }.joined()
            )
        }
        let refusedCodes = [
            "", "123456", "1234567", "123456789", "123-45678", "1234--5678", "12345678-", "1234\u{A0}5678", "+1234567", "１２３４５６７８",
        ]
        for code in refusedCodes { #expect(PairingCode(parsing: code) == nil) }
        let links = try pairingLinks(hash.shower)
        return PairingVectors(
            commitments: commitments,
            proofs: proofs,
            codes: codes,
            refusedCodes: refusedCodes,
            links: links.valid,
            refusedLinks: links.refused
        )
    }

    private func pairingLinks(_ id: EndpointID) throws -> (valid: [PairingVectors.Link], refused: [PairingVectors.RefusedLink]) {
        let secret = "AAECAwQFBgcICQoLDA0ODw"
        let start = "device-relay-pair:#id=\(id),secret=\(secret)"
        let place = "at=192.168.1.20-47110"
        let whole = "\(start),\(place)"
        let valid: [(String, String)] = [
            ("with an address", whole),
            ("with addresses of both families", "\(whole),at=2001:db8::1-1024,at=fd00::1-65535"),
            ("with an address in another form", "\(start),at=FD00:0:0:0::1-47110,at=::ffff:10.0.0.1-47110"),
            ("in another order, with more members", "device-relay-pair:#later=a=b,\(place),secret=\(secret),id=\(id),later=c"),
            ("with eight addresses", start + String(repeating: ",\(place)", count: 8)),
        ]
        let refused: [(String, String)] = [
            ("of another scheme", "https" + whole.dropFirst("device-relay-pair".count)),
            ("with an authority", whole.replacing(":#", with: "://#")), ("without a fragment", "device-relay-pair:" + "x"),
            ("with a part that is no member", "\(whole),later"), ("without an id", "device-relay-pair:#secret=\(secret),\(place)"),
            ("without a secret", "device-relay-pair:#id=\(id),\(place)"), ("without an address", start),
            ("with an id that is none", whole.replacing(id.description, with: "short")),
            ("with a secret of 15 bytes", whole.replacing(secret, with: "AAECAwQFBgcICQoLDA0O")),
            ("with a secret in another alphabet", whole.replacing("AAEC", with: "AA+C")),
            ("with bits that are not used", whole.replacing(secret, with: secret.dropLast() + "x")),
            ("with a secret twice", "\(whole),secret=\(secret)"), ("with nine addresses", start + String(repeating: ",\(place)", count: 9)),
            ("with a port below 1024", "\(start),at=10.0.0.1-1023"), ("with a port above 65535", "\(start),at=10.0.0.1-65536"),
            ("with a port that begins with 0", "\(start),at=10.0.0.1-04711"), ("without a port", "\(start),at=10.0.0.1"),
            ("with a colon before the port", "\(start),at=10.0.0.1:4711"), ("with a host name", "\(start),at=host-4711"),
            ("with a zone", "\(start),at=fd00::1%eth0-4711"), ("with brackets", "\(start),at=[fd00::1]-4711"),
            ("with a loopback address", "\(start),at=127.0.0.1-4711"), ("with a link-local address", "\(start),at=fe80::1-4711"),
            ("with a multicast address", "\(start),at=ff02::fb-5353"),
            ("of 1,025 bytes", "\(whole),x=" + String(repeating: "x", count: 1_025 - whole.utf8.count - 3)),
        ]
        return (
            try valid.map { name, text in
                let link = try PairingLink(parsing: text)
                return .init(
                    name: name,
                    link: text,
                    written: link.text,
                    id: link.id.description,
                    secret: hex(link.secret.exposed),
                    places: link.places.map { .init(address: hex($0.address.bytes), port: $0.port) }
                )
            },
            try refused.map { name, link in
                .init(name: name, link: link, error: try #require(vectorError { _ = try PairingLink(parsing: link) }, "\(name)"))
            }
        )
    }
}

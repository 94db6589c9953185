// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// An invitation into the account that this endpoint made.
package struct EndpointInvitation: Sendable {
    /// How long after the link's end its secret still counts: who joined by it may be seen only later.
    package static let proofGrace: Int64 = 3_600_000

    /// For the newcomer.
    package let link: JoinLink
    /// What the newcomer's record proves: the bytes of the link's proof, which the relay never sees.
    package let secret: Secret<[UInt8]>
    /// Until when the link can be used: milliseconds since 1970, by the own clock.
    package let ends: Int64
    /// Until when the secret counts.
    package var secretEnds: Int64 { ends + Self.proofGrace }
}

/// Makes a link that lets one more endpoint into the account of this one.
/// - Parameter accessToken: Of the relay's own issuer, with the scope `relay.device.register`.
/// - Throws: `accessTokenRequestFailed` if the issuer does not take the token.
package func makeInvitation(
    as endpoint: EndpointCredentials,
    accessToken: AccessToken,
    http: HTTPRequestClient = HTTPRequestClient()
) async throws(AccountError) -> EndpointInvitation {
    struct Answer: Decodable {
        var code: Secret<String>
        var expiresIn: Double

        enum CodingKeys: String, CodingKey {
            case code
            case expiresIn = "expires_in"
        }
    }
    var random = SystemRandomNumberGenerator()
    let secret = randomBytes(32, using: &random)
    let client = IssuerClient(endpoint, http: http)
    do throws(IssuerFailure) {
        let issuer = try await client.discover()
        let answer: Answer = try client.content(try await client.post(issuer.invitationEndpoint, accessToken: accessToken))
        let life = Int64(min(max(answer.expiresIn, 0), 86_400) * 1_000)
        let proof = Secret(Base64.url.encode(secret))
        guard
            let link = try? JoinLink(
                origin: endpoint.address.origin,
                relay: endpoint.relay,
                invite: answer.code,
                proof: proof,
                by: EndpointID(endpoint.identityKey.publicKey),
                plainHTTP: .allowed
            )
        else { throw .malformed("its code is none") }
        return EndpointInvitation(link: link, secret: Secret(secret), ends: endpoint.now() + life)
    } catch {
        switch error {
        case .refused(.invalidToken):
            throw AccountError(
                .accessTokenRequestFailed,
                message: "the relay's issuer does not take this account's token; sign the new device in with the account's own provider"
            )
        case .refused(.insufficientScope):
            throw AccountError(.accessTokenRequestFailed, message: "this login may not add devices; make the link on another device")
        default: throw AccountError(error)
        }
    }
}

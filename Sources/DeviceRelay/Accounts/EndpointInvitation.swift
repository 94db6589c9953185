// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// An invitation into the account that this endpoint created.
package struct EndpointInvitation: Sendable {
    /// How long the secret stays valid after the link's expiry, in milliseconds, because a new device may be seen only later.
    package static let proofGrace: Int64 = 3_600_000

    /// The link for the new device.
    package let link: JoinLink
    /// The secret that the new device's record proves: the bytes of the link's proof, which the relay never sees.
    package let secret: Secret<[UInt8]>
    /// When the link expires: milliseconds since 1970, by the local clock.
    package let ends: Int64
    /// When the secret expires.
    package var secretEnds: Int64 { ends + Self.proofGrace }
}

extension RelayAddress {
    /// Where an invitation leads: to the URL by which this endpoint reaches the relay. If only this machine can dial that, then to the relay's
    /// main URL, if others can dial it.
    fileprivate func origin(invitingTo main: String?) -> String {
        guard server.isLoopback, let main = main.flatMap({ Origin($0) }), !main.isLoopback else { return origin }
        return main.description
    }
}

/// Creates a link that admits one more endpoint to the account.
/// - Parameter accessToken: A token of the relay's own issuer, with the scope `relay.device.register`.
/// - Throws: `accessTokenRequestFailed` if the issuer rejects the token.
package func makeInvitation(
    as endpoint: EndpointCredentials,
    accessToken: AccessToken,
    http: HTTPRequestClient = HTTPRequestClient()
) async throws(AccountError) -> EndpointInvitation {
    struct Answer: Decodable {
        var code: Secret<String>
        var expiresIn: Double
        var relayURL: String?

        enum CodingKeys: String, CodingKey {
            case code
            case expiresIn = "expires_in"
            case relayURL = "relay_url"
        }
    }
    var random = SystemRandomNumberGenerator()
    let secret = randomBytes(32, using: &random)
    let client = IssuerClient(endpoint, http: http)
    do throws(IssuerClientError) {
        let issuer = try await client.discover(.relaysOwn)
        guard let invitations = issuer.invitationEndpoint else { throw .noIssuer }
        let answer: Answer = try client.content(try await client.post(invitations, of: issuer, accessToken: accessToken), of: nil)
        let life = Int64(min(max(answer.expiresIn, 0), 86_400) * 1_000)
        let proof = Secret(Base64.url.encode(secret))
        guard
            let link = try? JoinLink(
                origin: endpoint.address.origin(invitingTo: answer.relayURL),
                relay: endpoint.relay,
                invite: answer.code,
                proof: proof,
                by: EndpointID(endpoint.identityKey.publicKey),
                plainHTTP: .allowed
            )
        else { throw .malformed("its code is not valid") }
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
        case .refused(.accessDenied):
            throw AccountError(
                .accessTokenRequestFailed,
                message: "this device may not invite others before a device that may invite has approved it: run `relay approve` there, "
                    + "or, if none is left, `relayd invite` at the relay"
            )
        default: throw AccountError(error)
        }
    }
}

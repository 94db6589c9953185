// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

extension AccessTokenRequest {
    /// A proof, for the header `DPoP` of one request (RFC 9449), that it comes from this endpoint. With it at the token endpoint, the
    /// issuer binds the token to the endpoint's key, and a stolen token is of no use. Each request needs a new one.
    /// - Parameters:
    ///   - method: The request's method, such as `POST`.
    ///   - url: The request's URL; query and fragment are left out of the proof.
    ///   - accessToken: The token that the request presents, if it does.
    ///   - time: The server's time, where it is known that the own clock is off: a server's `Date` header has it. Default: now, by the
    ///     own clock.
    /// - Throws: `unknown` if the request was not made by the platform, or the key cannot be used.
    public func proof(
        method: String,
        url: URL,
        accessToken: AccessToken? = nil,
        time: Date? = nil
    ) throws(AccessTokenError) -> String {
        let endpoint = try credentials()
        let milliseconds = time.flatMap { Int64(exactly: ($0.timeIntervalSince1970 * 1_000).rounded()) } ?? endpoint.now()
        guard var components = URLComponents(url: url, resolvingAgainstBaseURL: true) else {
            throw AccessTokenError(.unknown, message: "a proof needs the whole URL of its request")
        }
        (components.query, components.fragment) = (nil, nil)
        guard let target = components.url?.absoluteString,
            let proof = try? endpoint.proof(method: method, url: target, accessToken: accessToken?.value, time: milliseconds)
        else { throw AccessTokenError(IssuerFailure.keyUnusable) }
        return proof
    }

    func credentials() throws(AccessTokenError) -> EndpointCredentials {
        guard let endpoint else {
            throw AccessTokenError(
                .unknown,
                message: "this request was not made by the platform, so that it has no key; pass on the platform's"
            )
        }
        return endpoint
    }
}

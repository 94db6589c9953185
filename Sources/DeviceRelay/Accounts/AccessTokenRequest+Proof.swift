// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Foundation

extension AccessTokenRequest {
    /// A proof for the `DPoP` header of one request (RFC 9449): it shows that the request comes from this endpoint. If the
    /// token endpoint gets one, the issuer binds the token to the endpoint's key, and a stolen token is useless. Each request
    /// needs a new proof.
    /// - Parameters:
    ///   - method: The method of the request, such as `POST`.
    ///   - url: The URL of the request. The proof leaves out query and fragment.
    ///   - accessToken: The token that the request presents, if any.
    ///   - time: The server's time (from its `Date` header), if the local clock is known to be wrong. The default is the local clock.
    /// - Throws: `unknown` if the platform did not create the request, or the key is not usable.
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
        else { throw AccessTokenError(IssuerClientError.keyUnusable) }
        return proof
    }

    func credentials() throws(AccessTokenError) -> EndpointCredentials {
        guard let endpoint else {
            throw AccessTokenError(
                .unknown,
                message: "this request has no key, because the platform did not make it; use the request that the platform passed"
            )
        }
        return endpoint
    }
}

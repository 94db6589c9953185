// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting

extension WireEndpoint {
    /// A proof of the endpoint's key for one request to the issuer.
    func proof(for path: String, accessToken: String? = nil) throws -> String {
        let now = Milliseconds(clamping: Int64(Date().timeIntervalSince1970 * 1_000))
        var random = SystemRandomNumberGenerator()
        let jti = (0..<16).map { _ in UInt8.random(in: 0...255, using: &random) }
        return try DPoPProof.make(
            method: "POST",
            url: relayd.origin + path,
            jti: jti,
            now: now,
            accessToken: accessToken,
            with: identityKey
        )
    }

    /// Refreshes the login.
    /// - Parameter token: an older refresh token than the newest.
    func refresh(with token: String? = nil) async throws {
        let form = "grant_type=refresh_token&client_id=org.example.test&refresh_token=\(token ?? refreshToken)"
        try take(try await post("/auth/token", form, fields: "DPoP: \(try proof(for: "/auth/token"))\r\n"))
    }
}

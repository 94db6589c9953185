// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// The device authorization grant (RFC 8628).
extension Issuer {
    /// Begins the sign-in of a device without a browser. `device_name` and `device_platform` are shown to its user.
    /// - Parameter user: The user who has already allowed it with the password; `nil` if a user decides later.
    func authorizeDevice(
        _ form: Form,
        from client: ClientNetworks,
        at issuer: String,
        allowedBy user: CheckedPassword? = nil
    ) async throws(OAuthError) -> DeviceAuthorizationResponse {
        let id = try TokenRequest.client(form)
        let scopes = try TokenRequest.scopes(form) ?? .all
        func shown(_ name: String) throws(OAuthError) -> String {
            let text = form[name] ?? ""
            guard text.unicodeScalars.count <= DeviceAuthorization.maximumNameCharacters, DisplayText.isPlain(text) else {
                throw OAuthError(
                    .invalidRequest,
                    "\(name) has at most \(DeviceAuthorization.maximumNameCharacters) characters, and no control characters"
                )
            }
            return text
        }
        let now = now()
        let (code, userCode) = (Secret(Base64.url.encode(randomBytes(32))), UserCode())
        let authorization = DeviceAuthorization(
            code: Digest256(hashing: Array(code.exposed.utf8)),
            userCode: userCode.digest(by: master.userCodeKey),
            client: id,
            scopes: scopes,
            device: try shown("device_name"),
            platform: try shown("device_platform"),
            expires: Milliseconds(clamping: now.count + DeviceAuthorization.life)
        )
        if let wait = bounds.withLock({ $0.deviceRequests.add(client, now: now) }) {
            throw OAuthError(.temporarilyUnavailable, "too many sign-ins; wait as Retry-After says", status: 429, retryAfter: wait)
        }
        let hasRoom = try await answering { () async throws(IssuerError) in
            try await store.write { records in
                try records.forget(before: now)
                guard try records.makeRoomForDeviceAuthorization(at: now) else { return false }
                try records.insert(authorization, from: client)
                if let user {
                    // Another password may have been set meanwhile.
                    let isAllowed = try records.password(of: user.user.subject) == user.stored
                    try records.decide(authorization.code, isAllowed ? .allowed(subject: user.user.subject) : .denied)
                }
                return true
            }
        }
        guard hasRoom else {
            throw OAuthError(.temporarilyUnavailable, "too many devices wait; try again later", status: 503, retryAfter: 60_000)
        }
        return DeviceAuthorizationResponse(deviceCode: code, userCode: userCode, issuer: issuer)
    }

    func redeem(
        device code: Digest256,
        _ request: TokenRequest,
        key: String?,
        proof: DPoPProof?,
        now: Milliseconds,
        in records: any IssuerTransaction
    ) throws -> GrantOutcome {
        guard let stored = try records.deviceAuthorization(code) else { return .refused(TokenRequest.unknownDeviceCode) }
        if bounds.withLock({ $0.polls.add("\(code)", now: now) }) != nil {
            return .refused(OAuthError(.slowDown, "ask less often: at most once in \(DeviceAuthorization.interval / 1_000) seconds"))
        }
        switch stored.answer(client: request.client, now: now) {
        case .refuse(let error): return .refused(error)
        case .grant(let subject):
            let scopes = request.scopes ?? stored.scopes
            guard scopes.isSubset(of: stored.scopes) else {
                return .refused(OAuthError(.invalidScope, "the user allowed \(stored.scopes) only"))
            }
            let outcome = try begin(
                subject: subject,
                request,
                scopes: scopes,
                device: stored.device,
                event: .appSignedIn,
                key: key,
                proof: proof,
                now: now,
                in: records
            )
            if case .granted = outcome { try records.removeDeviceAuthorization(code) }
            return outcome
        }
    }
}

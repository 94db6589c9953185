// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// The devices without a browser that wait for their users (RFC 8628).
final class DeviceAuthorizations: Sendable {
    private let context: IssuerContext
    private let requests: Mutex<RateLimiter>

    /// - Parameter perTenMinutes: How many devices an address may begin to sign in.
    init(_ context: IssuerContext, perTenMinutes: Int) {
        self.context = context
        self.requests = Mutex(RateLimiter(perWindow: perTenMinutes, capacity: 10_000, window: 600_000))
    }

    /// Begins the sign-in of a device without a browser. `device_name` and `device_platform` are shown to its user.
    /// - Parameter user: The user who has already allowed it with the password; `nil` if a user decides later.
    func authorize(
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
        let now = context.now()
        let (code, userCode) = (Secret(Base64.url.encode(randomBytes(32))), UserCode())
        let authorization = DeviceAuthorization(
            code: Digest256(hashing: Array(code.exposed.utf8)),
            userCode: userCode.digest(by: context.master.userCodeKey),
            client: id,
            scopes: scopes,
            device: try shown("device_name"),
            platform: try shown("device_platform"),
            expires: Milliseconds(clamping: now.count + DeviceAuthorization.life)
        )
        if let wait = requests.withLock({ $0.add(client, now: now) }) {
            throw .later("too many sign-ins; wait as Retry-After says", after: wait)
        }
        let hasRoom = try await context.write { records in
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
        guard hasRoom else { throw .later("too many devices wait; try again later", status: 503, after: 60_000) }
        return DeviceAuthorizationResponse(deviceCode: code, userCode: userCode, issuer: issuer)
    }

    /// Returns the pending device whose code a user typed; `nil` if there is none.
    func pending(userCode typed: String, for subject: String, now: Milliseconds) async throws(OAuthError) -> DeviceAuthorization? {
        // Valid codes count too. Otherwise an attacker could enter codes of their own devices between guesses.
        try await context.countAttempt([AttemptLimit("user code", subject)])
        guard let digest = UserCode(typed: typed)?.digest(by: context.master.userCodeKey) else { return nil }
        let found = try await context.read { try $0.deviceAuthorization(userCode: digest) }
        return found.flatMap { $0.isPending(at: now) ? $0 : nil }
    }

    /// Stores a user's decision.
    /// - Returns: Whether the device was pending.
    func decide(_ code: Digest256, _ decision: DeviceAuthorization.Decision, now: Milliseconds) async throws(OAuthError) -> Bool {
        try await context.write { records in
            guard let found = try records.deviceAuthorization(code), found.isPending(at: now) else { return false }
            try records.decide(code, decision)
            return true
        }
    }
}

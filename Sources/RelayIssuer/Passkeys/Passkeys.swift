// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import RelayProtocol
import Synchronization

/// Checks new passkeys, and sign-ins with passkeys.
final class Passkeys: Sendable {
    private let context: IssuerContext
    private let browsers: SignIn
    /// Sign-ins by subject. They also bound for each user how many answered challenges the store keeps.
    private let signIns: Mutex<RateLimiter>

    init(_ context: IssuerContext, signIn: SignIn, perMinute: Int) {
        self.context = context
        self.browsers = signIn
        self.signIns = Mutex(RateLimiter(perWindow: perMinute, capacity: 10_000))
    }

    private struct Checked {
        var data: AuthenticatorData
        /// The bytes that the authenticator signed.
        var signed: [UInt8]
        var challenge: PasskeyChallenge
    }

    /// Performs the checks that registration and sign-in have in common (WebAuthn §7.1, §7.2).
    private func check(_ visit: Visit, _ form: Form, type: String) -> Checked? {
        guard let host = Visit.relyingParty(visit.issuer), let clientBytes = form["client_data"].flatMap(Base64.url.decode),
            let json = try? JSONValue(parsing: clientBytes), let client = try? PasskeyClientData(json: json),
            let bytes = form["authenticator_data"].flatMap(Base64.url.decode), let data = AuthenticatorData(parsing: bytes)
        else { return nil }
        guard client.type == type, !client.isCrossOrigin, (client.origin + Issuer.path).utf8.elementsEqual(visit.issuer.utf8),
            let challenge = PasskeyChallenge(parsing: client.challenge, browser: visit.browser, now: visit.now, key: visit.formKey),
            data.relyingParty == Digest256(hashing: Array(host.utf8)), data.isVerified
        else { return nil }
        return Checked(data: data, signed: bytes + Digest256(hashing: clientBytes).bytes, challenge: challenge)
    }

    /// Reads a new passkey of a browser.
    func registered(_ visit: Visit, _ form: Form, subject: String) throws(OAuthError) -> Passkey {
        guard let checked = check(visit, form, type: "webauthn.create"), let id = checked.data.credential,
            let algorithm = form["algorithm"].flatMap({ Int($0) }), let spki = form["public_key"].flatMap(Base64.url.decode),
            let key = PasskeyKey(algorithm: algorithm, spki: spki)
        else { throw .passkeyIsRefused }
        return Passkey(id: id, subject: subject, key: key, name: visit.agent, created: visit.now, counter: checked.data.counter)
    }

    /// - Returns: `nil` if the passkey is not right, or was used already.
    func signIn(_ visit: Visit, _ form: Form) async throws(OAuthError) -> SignedInBrowser? {
        guard let checked = check(visit, form, type: "webauthn.get"), let id = form["credential"].flatMap(Base64.url.decode),
            let signature = form["signature"].flatMap(Base64.url.decode)
        else { return nil }
        let found = try await context.read { try $0.passkey(id) }
        guard let found, found.key.isValid(signature, for: checked.signed) else { return nil }
        if let wait = signIns.withLock({ $0.add(found.subject, now: context.now()) }) {
            throw .later(
                PageText("error.tooManyPasskeys", ["seconds": wait.retryAfterSeconds]),
                after: wait
            )
        }
        let challenge = checked.challenge
        return try await context.write { [browsers] records in
            guard try records.use(challenge.id, until: challenge.ends) else { return nil }
            guard var passkey = try records.passkey(id), passkey.accepts(counter: checked.data.counter) else { return nil }
            passkey.counter = checked.data.counter
            try records.update(passkey)
            return try browsers.beginSession(of: passkey.subject, visit, in: records)
        }
    }
}

extension IssuerTransaction {
    /// Adds a passkey.
    /// - Returns: Whether it was added: it is new, and its user has not too many.
    func add(_ passkey: Passkey, now: Milliseconds) throws -> Bool {
        guard try self.passkey(passkey.id) == nil, try passkeys(of: passkey.subject).count < Passkey.maximum else { return false }
        try insert(passkey)
        try note(.passkeyAdded, of: passkey.subject, passkey.name, now: now)
        return true
    }
}

extension OAuthError {
    static let passkeyIsRefused = OAuthError(
        .invalidRequest,
        PageText("error.passkeyRefused"),
        status: 400
    )
}

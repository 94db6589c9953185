// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird
import NIOCore
import RelayLog
import RelayProtocol
import Synchronization

/// Sign-in with passkeys. Only these forms need JavaScript. Without it, they stay hidden.
extension Issuer {
    func addPasskeyPages<Context: RequestContext>(to pages: Pages<Context, some RouterMethods<Context>>) {
        pages.post("/login/passkey") { [self] visit, form throws(OAuthError) in
            let signedIn = try await signingIn(by: .passkey, visit) { () async throws(OAuthError) in
                try await signInByPasskey(visit, form)
            }
            guard let browser = signedIn else {
                throw OAuthError(
                    .accessDenied,
                    "This passkey does not fit an account here, or the page was open for too long.",
                    status: 403
                )
            }
            return .local(Place(form["next"]).text, signedIn: browser)
        }
        pages.post(signedIn: "/account/passkey") { [self] visit, session, form throws(OAuthError) in
            guard session.isFresh(at: visit.now) else { throw Issuer.signInAgain }
            let passkey = try newPasskey(visit, form, subject: session.subject)
            let isAdded = try await answering { () async throws(IssuerError) in
                try await store.write { try Issuer.add(passkey, now: visit.now, in: $0) }
            }
            guard isAdded else { throw Issuer.passkeyIsRefused }
            return .local("/account")
        }
        pages.post(signedIn: "/account/passkey/remove") { [self] visit, session, form throws(OAuthError) in
            guard session.isFresh(at: visit.now) else { throw Issuer.signInAgain }
            let id = form["passkey"].flatMap(Base64.url.decode) ?? []
            let found = try await answering { () async throws(IssuerError) in try await store.read { try $0.passkey(id) } }
            guard let found, found.subject == session.subject else { return .local("/account") }
            guard form["confirmed"] == "yes" else {
                return visit.confirmation(
                    "/account/passkey/remove",
                    ("passkey", Base64.url.encode(id)),
                    question:
                        "Remove the passkey of <strong>\(found.name.isEmpty ? "a browser" : found.name)</strong>? It signs in here no more.",
                    button: "Remove it"
                )
            }
            try await answering { () async throws(IssuerError) in
                try await store.write { records in
                    guard let passkey = try records.passkey(id), passkey.subject == session.subject else { return }
                    try records.removePasskey(id)
                    try records.note(.passkeyRemoved, of: session.subject, passkey.name, now: visit.now)
                }
            }
            return .local("/account")
        }
        pages.post("/setup/passkey") { [self] visit, form throws(OAuthError) in
            guard let token = visit.setUp, let setUp = try await setUp(token, now: visit.now) else { throw Issuer.unknownLink }
            let passkey = try newPasskey(visit, form, subject: setUp.user.subject)
            return try await finish(setUp, token, form, .passkey(passkey), visit)
        }
        pages.router.get(RouterPath("\(Issuer.path)/passkey.js")) { _, _ in
            Response(
                status: .ok,
                headers: [
                    .contentType: "text/javascript; charset=utf-8", .cacheControl: "public, max-age=3600", .xContentTypeOptions: "nosniff",
                ],
                body: .init(byteBuffer: ByteBuffer(string: Issuer.passkeyScript))
            )
        }
    }

    static let passkeyIsRefused = OAuthError(
        .invalidRequest,
        "This passkey cannot be added: it is known here, there are too many, or the page was open for too long.",
        status: 400
    )

    private static func tooManySignIns(_ wait: Milliseconds) -> OAuthError {
        OAuthError(
            .temporarilyUnavailable,
            "There were too many sign-ins with passkeys of this account. Try again in \(wait.retryAfterSeconds) seconds.",
            status: 429,
            retryAfter: wait
        )
    }

    private static let tooManyPasskeys = OAuthError(
        .temporarilyUnavailable,
        "Too many people sign in with passkeys at this moment. Try again in a minute.",
        status: 503,
        retryAfter: 60_000
    )

    // MARK: Checks

    /// Returns the host for which passkeys are made; `nil` where browsers allow none: without TLS at a host other than localhost, and at an
    /// IP address.
    static func relyingParty(_ issuer: String) -> String? {
        guard let origin = Origin(String(issuer.dropLast(Issuer.path.count))), origin.isEncrypted || origin.host == "localhost",
            !origin.host.utf8.contains(UInt8(ascii: ":")), origin.host.utf8.contains(where: { (0x61...0x7A).contains($0) })
        else { return nil }
        return origin.host
    }

    private struct Checked {
        var data: AuthenticatorData
        /// The bytes that the authenticator signed.
        var signed: [UInt8]
        var challenge: PasskeyChallenge
    }

    /// Performs the checks that registration and sign-in have in common (WebAuthn §7.1, §7.2).
    private func check(_ visit: Visit, _ form: Form, type: String) -> Checked? {
        guard let host = Issuer.relyingParty(visit.issuer), let clientBytes = form["client_data"].flatMap(Base64.url.decode),
            let json = try? JSONValue(parsing: clientBytes), let client = try? PasskeyClientData(json: json),
            let bytes = form["authenticator_data"].flatMap(Base64.url.decode), let data = AuthenticatorData(parsing: bytes)
        else { return nil }
        guard client.type == type, !client.isCrossOrigin, (client.origin + Issuer.path).utf8.elementsEqual(visit.issuer.utf8),
            let challenge = PasskeyChallenge(parsing: client.challenge, browser: visit.browser, now: visit.now, key: master.formKey),
            data.relyingParty == Digest256(hashing: Array(host.utf8)), data.isVerified
        else { return nil }
        return Checked(data: data, signed: bytes + Digest256(hashing: clientBytes).bytes, challenge: challenge)
    }

    private func newPasskey(_ visit: Visit, _ form: Form, subject: String) throws(OAuthError) -> Passkey {
        guard let checked = check(visit, form, type: "webauthn.create"), let id = checked.data.credential,
            let algorithm = form["algorithm"].flatMap({ Int($0) }), let spki = form["public_key"].flatMap(Base64.url.decode),
            let key = PasskeyKey(algorithm: algorithm, spki: spki)
        else { throw Issuer.passkeyIsRefused }
        return Passkey(id: id, subject: subject, key: key, name: visit.agent, created: visit.now, counter: checked.data.counter)
    }

    static func add(_ passkey: Passkey, now: Milliseconds, in records: any IssuerTransaction) throws -> Bool {
        guard try records.passkey(passkey.id) == nil, try records.passkeys(of: passkey.subject).count < Passkey.maximum else {
            return false
        }
        try records.insert(passkey)
        try records.note(.passkeyAdded, of: passkey.subject, passkey.name, now: now)
        return true
    }

    private func signInByPasskey(_ visit: Visit, _ form: Form) async throws(OAuthError) -> SignedInBrowser? {
        guard let checked = check(visit, form, type: "webauthn.get"), let id = form["credential"].flatMap(Base64.url.decode),
            let signature = form["signature"].flatMap(Base64.url.decode)
        else { return nil }
        let found = try await answering { () async throws(IssuerError) in try await store.read { try $0.passkey(id) } }
        guard let found, found.key.isValid(signature, for: checked.signed) else { return nil }
        if let wait = bounds.withLock({ $0.passkeys.add(found.subject, now: now()) }) { throw Issuer.tooManySignIns(wait) }
        let challenge = checked.challenge
        switch bounds.withLock({
            $0.challenges.use(challenge.id, made: challenge.time, until: challenge.ends, now: visit.now)
        }) {
        case .fresh: break
        case .replayed: return nil
        case .full: throw Issuer.tooManyPasskeys
        }
        return try await answering { () async throws(IssuerError) in
            try await store.write { [self] records in
                guard var passkey = try records.passkey(id), passkey.accepts(counter: checked.data.counter) else { return nil }
                passkey.counter = checked.data.counter
                try records.update(passkey)
                return try beginSession(of: passkey.subject, visit, in: records)
            }
        }
    }

    // MARK: Forms

    func passkeyForm(_ visit: Visit, next: Place) -> HTML? {
        passkeyForm(
            visit,
            "/login/passkey",
            kind: "get",
            fields: ["credential", "signature"],
            visit.hidden("next", next.text),
            "Sign in with a passkey",
            intro: "<p>Or without a password:</p>"
        )
    }

    /// - Parameter questions: Additional fields of the form.
    func newPasskeyForm(_ visit: Visit, _ action: String, _ user: IssuerUser, intro: HTML = "", _ questions: HTML? = nil) -> HTML? {
        passkeyForm(
            visit,
            action,
            kind: "create",
            fields: ["public_key", "algorithm"],
            "<input type=\"hidden\" data-user=\"\(user.subject)\" data-name=\"\(user.name)\" disabled>\(questions)",
            "Add a passkey",
            intro: intro
        )
    }

    private func passkeyForm(
        _ visit: Visit,
        _ action: String,
        kind: String,
        fields: [String],
        _ more: HTML,
        _ button: String,
        intro: HTML
    ) -> HTML? {
        guard let host = Issuer.relyingParty(visit.issuer) else { return nil }
        let challenge = PasskeyChallenge(browser: visit.browser, now: visit.now, key: master.formKey)
        let inputs = (["client_data", "authenticator_data"] + fields).map { "<input type=\"hidden\" name=\"\($0)\" value=\"\">" as HTML }
        return """
            <div data-passkey="\(kind)" data-challenge="\(challenge.text)" data-host="\(host)" hidden>
            \(intro)\(visit.form(action, "\(inputs)\(more)", button: button))
            <p class="note" role="alert" hidden>The passkey was not used. Try again, or sign in another way.</p>
            </div>
            <script src="\(Issuer.path)/passkey.js" defer></script>
            """
    }

    func passkeyItem(_ visit: Visit, _ passkey: Passkey) -> HTML {
        """
        <li>\(passkey.name.isEmpty ? "A passkey" : passkey.name)
        \(visit.destructiveForm("/account/passkey/remove", visit.hidden("passkey", Base64.url.encode(passkey.id)), button: "Remove it"))</li>
        """
    }

    /// Asks the browser for a passkey and sends the form.
    static let passkeyScript = """
        // SPDX-License-Identifier: Apache-2.0
        "use strict";
        const encode = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)))
            .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
        const decode = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
        for (const part of document.querySelectorAll("[data-passkey]")) {
            if (!window.PublicKeyCredential) continue;
            part.hidden = false;
            const form = part.querySelector("form");
            form.addEventListener("submit", async (event) => {
                event.preventDefault();
                try {
                    const challenge = decode(part.dataset.challenge);
                    let credential;
                    if (part.dataset.passkey === "get") {
                        credential = await navigator.credentials.get({
                            publicKey: { challenge, rpId: part.dataset.host, userVerification: "required" },
                        });
                        form.elements.credential.value = encode(credential.rawId);
                        form.elements.signature.value = encode(credential.response.signature);
                        form.elements.authenticator_data.value = encode(credential.response.authenticatorData);
                    } else {
                        const user = form.querySelector("[data-user]").dataset;
                        credential = await navigator.credentials.create({
                            publicKey: {
                                challenge,
                                rp: { id: part.dataset.host, name: "Device Relay" },
                                user: { id: new TextEncoder().encode(user.user), name: user.name, displayName: user.name },
                                pubKeyCredParams: [{ type: "public-key", alg: -7 }, { type: "public-key", alg: -257 }],
                                authenticatorSelection: { residentKey: "required", userVerification: "required" },
                                attestation: "none",
                            },
                        });
                        form.elements.public_key.value = encode(credential.response.getPublicKey());
                        form.elements.algorithm.value = credential.response.getPublicKeyAlgorithm();
                        form.elements.authenticator_data.value = encode(credential.response.getAuthenticatorData());
                    }
                    form.elements.client_data.value = encode(credential.response.clientDataJSON);
                    form.submit();
                } catch {
                    part.querySelector("[role=alert]").hidden = false;
                }
            });
        }

        """
}

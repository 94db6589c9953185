// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird
import RelayLog
import RelayProtocol
import Synchronization

/// Recovery for a person who has lost the password.
extension Issuer {
    func addRecoveryPages<Context: RequestContext>(to pages: Pages<Context, some RouterMethods<Context>>) {
        pages.get("/recover") { [self] visit, _ in recoveryPage(visit) }
        pages.post("/recover") { [self] visit, form throws(OAuthError) in
            let attempt = SignInAttempt(name: form["name"] ?? "", visit)
            let restored = try await signingIn(
                by: .recoveryCode,
                account: form["name"] ?? "",
                from: visit.networks,
                app: visit.agent,
                name: { (_: SetUpToken) in attempt.name?.text ?? "" },
                { () async throws(OAuthError) in try await check(attempt, recoveryCode: form["code"] ?? "") }
            )
            guard let restored else {
                return recoveryPage(visit, note: "The name or the code is wrong, or the code was used.", status: .unauthorized)
            }
            return .local("/setup", setUp: restored)
        }
        pages.post(signedIn: "/account/codes") { [self] visit, session, _ throws(OAuthError) in
            guard session.isFresh(at: visit.now) else { throw Issuer.signInAgain }
            let codes = try await answering { () async throws(IssuerError) in
                try await store.write { [self] in try makeRecoveryCodes(of: session.subject, visit.agent, now: visit.now, in: $0) }
            }
            return .page(
                "Your recovery codes",
                """
                <p class="note">Write these codes down, or print this page. They are shown only now. Each works once, instead of a lost password.
                Older codes no longer work.</p>
                <ul>\(codes.map { "<li class=\"code\">\($0.text.exposed)</li>" as HTML })</ul>
                <p><a href="\(visit.link("/account"))">Back to the account</a></p>
                """
            )
        }
    }

    /// Makes new recovery codes. Older ones no longer work.
    func makeRecoveryCodes(
        of subject: String,
        _ agent: String,
        now: Milliseconds,
        in records: any IssuerTransaction
    ) throws -> [RecoveryCode] {
        let codes = (0..<RecoveryCode.count).map { _ in RecoveryCode() }
        try records.setRecoveryCodes(codes.map { $0.digest(by: master.recoveryKey) }, of: subject)
        try records.note(.recoveryCodesMade, of: subject, agent, now: now)
        return codes
    }

    private func recoveryPage(_ visit: Visit, note: String? = nil, status: HTTPResponse.Status = .ok) -> PageResponse {
        .page(
            "Use a recovery code",
            """
            \(note.map { "<p class=\"note\" role=\"alert\">\($0)</p>" })
            <p>Without a recovery code, ask the operator of this relay for a new link.</p>
            \(visit.form(
                "/recover",
                """
                <label>Name
                <input name="name" autocomplete="username" autocapitalize="none" required></label>
                <label>Recovery code
                <input class="code" name="code" autocomplete="off" autocapitalize="characters" spellcheck="false" required></label>
                """,
                button: "Continue"
            ))
            """,
            status: status
        )
    }
}

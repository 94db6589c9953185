// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

// Only these forms need JavaScript. Without it, they stay hidden.
extension Visit {
    /// Returns the host for which passkeys are made; `nil` where browsers allow none: without TLS at a host other than localhost, and at an
    /// IP address.
    static func relyingParty(_ issuer: String) -> String? {
        guard let origin = Origin(String(issuer.dropLast(Issuer.path.count))), origin.isEncrypted || origin.host == "localhost",
            !origin.host.utf8.contains(UInt8(ascii: ":")), origin.host.utf8.contains(where: { (0x61...0x7A).contains($0) })
        else { return nil }
        return origin.host
    }

    func passkeyForm(next: NextPage) -> HTML? {
        passkeyForm(
            "/login/passkey",
            kind: "get",
            fields: ["credential", "signature"],
            hidden("next", next.text),
            t("passkey.signIn"),
            intro: "<p>\(t("passkey.or"))</p>"
        )
    }

    /// - Parameter questions: Additional fields of the form.
    func newPasskeyForm(_ action: String, _ user: IssuerUser, intro: HTML = "", _ questions: HTML? = nil) -> HTML? {
        passkeyForm(
            action,
            kind: "create",
            fields: ["public_key", "algorithm"],
            "<input type=\"hidden\" data-user=\"\(user.subject)\" data-name=\"\(user.name)\" disabled>\(questions)",
            t("passkey.add"),
            intro: intro
        )
    }

    private func passkeyForm(
        _ action: String,
        kind: String,
        fields: [String],
        _ more: HTML,
        _ button: HTML,
        intro: HTML
    ) -> HTML? {
        guard let host = Visit.relyingParty(issuer) else { return nil }
        let challenge = PasskeyChallenge(browser: browser, now: now, key: formKey)
        let inputs = (["client_data", "authenticator_data"] + fields).map { "<input type=\"hidden\" name=\"\($0)\" value=\"\">" as HTML }
        return """
            <div data-passkey="\(kind)" data-challenge="\(challenge.text)" data-host="\(host)" hidden>
            \(intro)\(form(action, "\(inputs)\(more)", button: button))
            <p class="note" role="alert" hidden>\(t("passkey.notUsed"))</p>
            </div>
            <script src="\(Issuer.path)/passkey.js" defer></script>
            """
    }
}

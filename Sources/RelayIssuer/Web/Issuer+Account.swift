// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird
import RelayProtocol

/// A user's own account.
extension Issuer {
    func addAccountPages<Context: RequestContext>(to pages: Pages<Context, some RouterMethods<Context>>) {
        pages.get("/account") { [self] visit, _ throws(OAuthError) in
            guard let session = visit.session else { return .local("/login") }
            return try await accountPage(visit, session)
        }
    }

    func accountPage(_ visit: Visit, _ session: WebSession) async throws(OAuthError) -> PageResponse {
        let user = try await answering { () async throws(IssuerError) in try await store.read { try $0.user(session.subject) } }
        guard let user else { return .local("/login") }
        return .page("Account \(user.name)", visit.form("/logout", button: "Sign out"))
    }
}

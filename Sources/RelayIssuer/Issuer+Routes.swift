// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
package import Hummingbird

extension Issuer {
    /// Adds the issuer's routes, below `Issuer.path` and at the metadata address of RFC 8414 §3.1.
    /// - Parameter networks: The networks under which a client's failures are counted.
    package func addRoutes<Context: RequestContext>(
        to router: some RouterMethods<Context>,
        networks: @escaping @Sendable (Request, Context) -> ClientNetworks
    ) {
        let routes = IssuerRoutes(context: context, limits: limits, router: router, networks: networks)
        addEndpoints(to: routes)
        addPages(to: routes)
        TerminalRoutes(context: context, signIn: signIn, setUps: setUps, devices: devices).add(to: routes)
    }

    private func addEndpoints<Context: RequestContext>(to routes: IssuerRoutes<Context, some RouterMethods<Context>>) {
        let path = Issuer.path
        for address in [
            "\(path)/.well-known/openid-configuration",
            "\(path)/.well-known/oauth-authorization-server",
            "/.well-known/oauth-authorization-server\(path)",
        ] {
            routes.router.get(RouterPath(address)) { [context] request, _ in
                Response.json(Metadata(issuer: context.url(for: request)), cacheControl: "public, max-age=300")
            }
        }
        routes.router.get(RouterPath("\(path)/jwks")) { [self] _, _ in
            await Response.answering { () async throws(OAuthError) in
                let keys = try await context.answering { () async throws(IssuerError) in try await publishedKeys() }
                return .json(keys, cacheControl: "public, max-age=3600")
            }
        }
        routes.endpoint("/token") { [context, tokens] request, client throws(OAuthError) in
            let form = try await request.clientForm()
            return .json(try await tokens.answer(form, proofs: request.values(of: "dpop"), from: client, at: context.url(for: request)))
        }
        routes.endpoint("/revoke") { [tokens] request, _ throws(OAuthError) in
            let form = try await request.clientForm()
            try await tokens.revoke(form.required("token"), client: TokenRequest.client(form))
            return Response(status: .ok, headers: [.cacheControl: "no-store"])
        }
        routes.endpoint("/introspect") { [introspection] request, _ throws(OAuthError) in
            .json(try await introspection.answer(try await request.form(), authorization: request.values(of: "authorization")))
        }
        routes.endpoint("/device_authorization") { [context, devices] request, client throws(OAuthError) in
            .json(try await devices.authorize(try await request.clientForm(), from: client, at: context.url(for: request)))
        }
        routes.endpoint("/register") { [context] request, _ throws(OAuthError) in
            let body = try await request.body(type: "application/json")
            return .json(try RegistrationResponse(to: body, by: context.master.clientKey, now: context.now()), status: .created)
        }
        routes.endpoint("/invitations") { [invitations] request, _ throws(OAuthError) in
            let presented = try InviteCredentials(
                authorization: request.values(of: "authorization"),
                proofs: request.values(of: "dpop")
            )
            return .json(try await invitations.answer(presented))
        }
    }

    private func addPages<Context: RequestContext>(to routes: IssuerRoutes<Context, some RouterMethods<Context>>) {
        let ownDevices = OwnDevicePages(context: context, signIn: signIn, logins: logins, accounts: accounts)
        SignInPages(context: context, signIn: signIn).add(to: routes)
        SetUpPages(setUps: setUps, signIn: signIn, passkeys: passkeys).add(to: routes)
        AccountPages(context: context, signIn: signIn, logins: logins, ownDevices: ownDevices).add(to: routes)
        ownDevices.add(to: routes)
        PasskeyPages(context: context, passkeys: passkeys).add(to: routes)
        RecoveryPages(context: context, signIn: signIn).add(to: routes)
        AuthorizationPages(context: context).add(to: routes)
        DevicePages(devices: devices).add(to: routes)
        // People type only the relay's name.
        for place in ["/", Issuer.path] {
            routes.router.get(RouterPath(place)) { _, _ in
                Response(status: .seeOther, headers: [.location: Issuer.path + "/account", .cacheControl: "no-store"])
            }
        }
        for file in [ConsoleFile.style, .mark, .times] { routes.file(file) }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import HTTPTypes
package import Hummingbird
import HummingbirdCore
package import NIOCore
import RelayProtocol

/// Makes every error response problem JSON.
package struct ProblemMiddleware: RouterMiddleware {
    package typealias Context = RelayRequestContext

    package func handle(
        _ request: Request,
        context: RelayRequestContext,
        next: @concurrent (Request, RelayRequestContext) async throws -> Response
    ) async throws -> Response {
        let response = try await answer(request, context, next)
        // Also an error has no body then.
        return request.method == .head ? response.createHeadResponse() : response
    }

    private func answer(
        _ request: Request,
        _ context: RelayRequestContext,
        _ next: @concurrent (Request, RelayRequestContext) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch let error as ProblemDetails {
            return error.response(from: request, context: context)
        } catch let error as HTTPError {
            let detail = error.body ?? (error.status == .notFound ? "Nothing is served at this path." : error.status.reasonPhrase)
            return ProblemDetails(error.status, detail, headers: error.headers).response(from: request, context: context)
        } catch let error as any HTTPResponseError {
            return try error.response(from: request, context: context)
        }
    }
}

/// Rejects requests with a foreign `Host`: a page that uses DNS rebinding must not reach the relay.
package struct HostMiddleware: RouterMiddleware {
    package typealias Context = RelayRequestContext

    let origins: OwnOrigins

    package func handle(
        _ request: Request,
        context: RelayRequestContext,
        next: @concurrent (Request, RelayRequestContext) async throws -> Response
    ) async throws -> Response {
        guard let host = request.head.authority else { throw ProblemDetails.oneHost }
        guard origins.allows(host: host, on: context.localAddress) else { throw ProblemDetails.wrongHost }
        return try await next(request, context)
    }
}

/// A challenge for an access token names where the relay's issuers are found (RFC 9728 §5.1).
package struct ChallengeMiddleware: RouterMiddleware {
    package typealias Context = RelayRequestContext

    static let metadataPath = "/.well-known/oauth-protected-resource"

    let resource: @Sendable (Request) throws -> Origin

    package func handle(
        _ request: Request,
        context: RelayRequestContext,
        next: @concurrent (Request, RelayRequestContext) async throws -> Response
    ) async throws -> Response {
        var response = try await next(request, context)
        if response.status == .unauthorized, let challenge = response.headers[.wwwAuthenticate] {
            response.headers[.wwwAuthenticate] = challenge + ", resource_metadata=\"\(try resource(request))\(Self.metadataPath)\""
        }
        return response
    }
}

/// The context of a request, with the addresses of its connection.
package struct RelayRequestContext: RequestContext {
    package var coreContext: CoreRequestContextStorage
    package let localAddress: SocketAddress?
    package let remoteAddress: SocketAddress?

    package init(source: ApplicationRequestContextSource) {
        self.coreContext = CoreRequestContextStorage(source: source)
        self.localAddress = source.channel.localAddress
        self.remoteAddress = source.channel.remoteAddress
    }
}

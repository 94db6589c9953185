// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import HTTPTypes
package import Hummingbird
import RelayProtocol

/// The issuers that a relay names to clients, by their URLs.
package struct AcceptedIssuers: Hashable, Sendable {
    package var urls: [String]
    /// Those of them that cannot define the relay's scopes.
    package var withoutScopes: [String]

    package init(_ urls: [String], withoutScopes: [String] = []) {
        self.urls = urls
        self.withoutScopes = withoutScopes
    }
}

/// The relay's HTTP routes, without those that others add. Metrics have an address of their own, because a proxy in front of the relay
/// would publish them here.
package struct RelayRoutes: Sendable {
    package var origins: OwnOrigins
    /// The accepted issuers, published for clients.
    package var issuers: @Sendable () -> AcceptedIssuers
    /// The ports for plain tunnel connections, for clients that diagnose failures.
    package var tunnelPorts: @Sendable () -> [Int]
    /// Why the relay cannot serve requests now, as text; `nil` if it can.
    package var obstacle: @Sendable () async -> String?
    /// This node; `nil` if it is the only one.
    package var node: @Sendable () -> NodeID?

    package init(
        origins: OwnOrigins,
        issuers: @escaping @Sendable () -> AcceptedIssuers,
        tunnelPorts: @escaping @Sendable () -> [Int],
        obstacle: @escaping @Sendable () async -> String?,
        node: @escaping @Sendable () -> NodeID? = { nil }
    ) {
        self.origins = origins
        self.issuers = issuers
        self.tunnelPorts = tunnelPorts
        self.obstacle = obstacle
        self.node = node
    }

    /// - Parameter adding: adds more routes, such as the issuer's.
    package func makeRouter(adding: (Router<RelayRequestContext>) -> Void = { _ in }) -> Router<RelayRequestContext> {
        let router = Router(context: RelayRequestContext.self, options: .autoGenerateHeadEndpoints)
        router.add(middleware: ProblemMiddleware())
        router.add(middleware: HostMiddleware(origins: origins))
        router.add(middleware: ChallengeMiddleware { try resource(of: $0) })
        router.get("/healthz") { _, _ in Self.text("ok\n") }
        router.get("/readyz") { _, _ in
            var fields = HTTPFields()
            if let name = HTTPField.Name(CommonURL.field), let node = node() { fields[name] = "\(node)" }
            if let obstacle = await obstacle() { throw ProblemDetails(.serviceUnavailable, obstacle, headers: fields) }
            var ready = Self.text("ready\n")
            ready.headers.append(contentsOf: fields)
            return ready
        }
        router.get(RouterPath(ChallengeMiddleware.metadataPath)) { request, _ in try protectedResource(request) }
        router.get("/v1/tunnels") { _, _ in try Self.json(["ports": tunnelPorts()]) }
        for path in ["/v1/connect", "/v1/tunnels/:id"] as [RouterPath] {
            router.get(path) { _, _ -> Response in
                throw ProblemDetails(
                    .upgradeRequired,
                    "This is a WebSocket, for which the request must ask. A proxy has to pass on the fields Upgrade and Connection.",
                    headers: [.upgrade: "websocket", .connection: "upgrade"]
                )
            }
        }
        adding(router)
        return router
    }

    /// RFC 9728, and which of the issuers cannot be asked for the relay's scopes.
    private func protectedResource(_ request: Request) throws -> Response {
        struct Metadata: Encodable {
            var resource: String
            var issuers: [String]
            var issuersWithoutScopes: [String]?
            var methods = ["header"]
            var scopes = RelayScope.allCases.map(\.rawValue)

            enum CodingKeys: String, CodingKey {
                case resource
                case issuers = "authorization_servers"
                case issuersWithoutScopes = "authorization_servers_without_scopes"
                case methods = "bearer_methods_supported"
                case scopes = "scopes_supported"
            }
        }
        let accepted = issuers()
        return try Self.json(
            Metadata(
                resource: resource(of: request).description,
                issuers: accepted.urls,
                issuersWithoutScopes: accepted.withoutScopes.isEmpty ? nil : accepted.withoutScopes
            )
        )
    }

    /// The relay, as the client knows it.
    private func resource(of request: Request) throws(ProblemDetails) -> Origin {
        let dialled = Origin(scheme: origins.isTLS ? "https" : "http", authority: request.head.authority ?? "")
        guard let resource = origins.urls.first ?? dialled else { throw ProblemDetails.wrongHost }
        return resource
    }

    private static func json(_ value: some Encodable) throws -> Response {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return text(String(decoding: try encoder.encode(value), as: UTF8.self), type: "application/json")
    }

    static func text(_ text: String, type: String = "text/plain; charset=utf-8") -> Response {
        Response(
            status: .ok,
            headers: [.contentType: type, .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: ByteBuffer(string: text))
        )
    }
}

/// The routes of the address for metrics: nothing but metrics.
struct MetricsRoutes {
    var address: ListenAddress
    var metrics: PrometheusMetrics

    func makeRouter() -> Router<RelayRequestContext> {
        let router = Router(context: RelayRequestContext.self, options: .autoGenerateHeadEndpoints)
        router.add(middleware: ProblemMiddleware())
        // On loopback the `Host` field must match. On other addresses the operator has opened the metrics to all clients, under any name.
        if address.isLoopback { router.add(middleware: HostMiddleware(origins: OwnOrigins(urls: [], isTLS: false))) }
        router.get("/metrics") { _, _ in RelayRoutes.text(await metrics.current(), type: "text/plain; version=0.0.4; charset=utf-8") }
        return router
    }
}

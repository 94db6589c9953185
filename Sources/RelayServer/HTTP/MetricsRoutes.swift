// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird

/// What is answered at the address that was set aside for metrics: they, and nothing else.
struct MetricsRoutes {
    var address: ListenAddress
    var metrics: PrometheusMetrics

    func makeRouter() -> Router<RelayRequestContext> {
        let router = Router(context: RelayRequestContext.self)
        router.add(middleware: ProblemMiddleware())
        // Beyond loopback it was opened to whoever reaches it, by whatever name.
        if address.isLoopback { router.add(middleware: HostMiddleware(origins: OwnOrigins(urls: [], isTLS: false))) }
        router.get("/metrics") { _, _ in RelayRoutes.text(metrics.text, type: "text/plain; version=0.0.4; charset=utf-8") }
        return router
    }
}

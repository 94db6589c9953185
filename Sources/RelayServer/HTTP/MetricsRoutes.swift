// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Hummingbird

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

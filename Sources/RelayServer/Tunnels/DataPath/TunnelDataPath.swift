// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// How the bytes of paired connections get from one to the other. One for all tunnels of a relay.
protocol TunnelDataPath: Sendable {
    /// The transfer between two connections that are paired now; `nil` if their event loops hand the bytes over.
    func transfer(between one: TunnelConnection, and other: TunnelConnection, metrics: TunnelMetrics) -> (any TunnelTransfer)?
    /// Ends all transfers, and returns when they have ended. A later one ends when it begins.
    func stop() async
}

/// A pair of connections that leaves its event loops when the first bytes pass. Until then either may be replaced. A side is 0 or 1.
protocol TunnelTransfer: AnyObject, Sendable {
    /// A side's client has been told that it is paired. Called on its event loop, as `begin`.
    func greeted(_ side: Int)
    /// Bytes are about to pass.
    /// - Returns: whether both connections leave now; if not, they stay for good.
    func begin() -> Bool
    /// Closes both sides, wherever they are.
    func abort()
    /// What was read from a side and is not written to the other.
    func bytesInFlight(from side: Int) async -> Int
}

/// The event loops hand the bytes over: for connections that carry more than the tunnel's bytes, and where there is nothing quicker.
struct NIODataPath: TunnelDataPath {
    func transfer(between one: TunnelConnection, and other: TunnelConnection, metrics: TunnelMetrics) -> (any TunnelTransfer)? { nil }
    func stop() async {}
}

/// The quickest path that this system has for plain connections.
func makePlainDataPath() -> any TunnelDataPath {
    #if os(Linux)
    SpliceDataPath()
    #else
    NIODataPath()
    #endif
}

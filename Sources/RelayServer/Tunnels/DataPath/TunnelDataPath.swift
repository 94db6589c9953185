// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Carries bytes between paired connections. One for all tunnels of a relay.
protocol TunnelDataPath: Sendable {
    /// The transfer between two newly paired connections; `nil` if their event loops carry the bytes.
    func transfer(between one: TunnelConnection, and other: TunnelConnection, metrics: TunnelMetrics) -> (any TunnelTransfer)?
    /// Ends all transfers, and returns when they have ended. A later transfer ends when it begins.
    func stop() async
}

/// A pair of connections that leaves its event loops when the first bytes pass. Until then either may be replaced. A side is 0 or 1.
protocol TunnelTransfer: AnyObject, Sendable {
    /// Reports that a side's client knows about the pairing. Called on the side's event loop, as `begin`.
    func greeted(_ side: Int)
    /// Announces the first bytes.
    /// - Returns: whether both connections leave their event loops now; if not, they stay permanently.
    func begin() -> Bool
    /// Closes both sides, in any state.
    func abort()
    /// The bytes that were read from a side and are not yet written to the other.
    func bytesInFlight(from side: Int) async -> Int
}

/// The event loops carry the bytes: for connections with framing or TLS, and for systems without a faster path.
struct NIODataPath: TunnelDataPath {
    func transfer(between one: TunnelConnection, and other: TunnelConnection, metrics: TunnelMetrics) -> (any TunnelTransfer)? { nil }
    func stop() async {}
}

/// The fastest path on this system for plain connections.
func makePlainDataPath() -> any TunnelDataPath {
    #if os(Linux)
    SpliceDataPath()
    #else
    NIODataPath()
    #endif
}

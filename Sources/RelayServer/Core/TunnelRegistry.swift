// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// Maps tunnels to accounts, and holds the tunnels' connections. Used when connections open and close, never for bytes.
final class TunnelRegistry: Sendable {
    private struct State {
        var accounts: [TunnelID: AccountID] = [:]
        var entrants: [EntrantID: TunnelConnection] = [:]
        var lastEntrant: UInt64 = 0
    }

    private let metrics: TunnelMetrics
    private let state = Mutex(State())

    init(metrics: TunnelMetrics) { self.metrics = metrics }

    var entrants: [TunnelConnection] { state.withLock { Array($0.entrants.values) } }

    /// The accounts that have tunnels.
    var accounts: Set<AccountID> { state.withLock { Set($0.accounts.values) } }

    func account(of tunnel: TunnelID) -> AccountID? { state.withLock { $0.accounts[tunnel] } }

    /// Registers a connection for a tunnel. The account decides whether to admit it.
    func arrived(_ connection: TunnelConnection, for tunnel: TunnelID) -> (EntrantID, AccountID)? {
        change { state in
            guard let account = state.accounts[tunnel] else { return nil }
            state.lastEntrant += 1
            let entrant = EntrantID(state.lastEntrant)
            state.entrants[entrant] = connection
            return (entrant, account)
        }
    }

    func left(_ entrant: EntrantID) { change { $0.entrants[entrant] = nil } }

    /// - Returns: the work to do after the locks are released.
    func perform(_ action: AccountRelay.TunnelAction, of account: AccountID) -> (@Sendable () -> Void)? {
        switch action {
        case .opened(let tunnel):
            metrics.wasOpened()
            change { $0.accounts[tunnel] = account }
        case .ended(let tunnel): change { $0.accounts[tunnel] = nil }
        case .failed(let code): metrics.failed(code)
        case .pair(let opener, let target, let generation):
            let found = state.withLock { ($0.entrants[opener], $0.entrants[target]) }
            guard let one = found.0, let other = found.1 else { return nil }
            metrics.paired()
            return { [metrics] in TunnelConnection.pair(one, other, generation: generation, metrics: metrics) }
        case .dismiss(let entrant, let status):
            guard let connection = state.withLock({ $0.entrants[entrant] }) else { return nil }
            return { connection.dismiss(status) }
        case .abort(let entrant):
            guard let connection = state.withLock({ $0.entrants[entrant] }) else { return nil }
            return { connection.abort() }
        }
        return nil
    }

    private func change<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        let (result, tunnels, entrants) = state.withLock { state in (body(&state), state.accounts.count, state.entrants.count) }
        metrics.are(open: tunnels, entrants: entrants)
        return result
    }
}

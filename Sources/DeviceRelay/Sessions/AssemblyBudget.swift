// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol
import Synchronization

/// The bytes of large messages that all sessions of an endpoint together may be assembling or holding for the app. Who comes first
/// is served first, so that many small messages do not keep a large one waiting for ever.
package final class AssemblyBudget: Sendable {
    package typealias Ticket = UInt64

    private struct Claim {
        let bytes: Int
        let isAvailable: @Sendable () -> Void
    }

    private struct State {
        var free: Int
        var claims = WaitingLine<Claim>()
    }

    private let state: Mutex<State>

    package init(limits: Limits = Limits()) {
        state = Mutex(State(free: limits[.assemblyBytesPerEndpoint]))
    }

    /// What is free now.
    package var freeBytes: Int { state.withLock(\.free) }

    /// Takes bytes, at most the whole budget at once.
    /// - Returns: `nil` if they are taken, else a place in the line; then the closure is called when they are.
    func reserve(_ bytes: Int, isAvailable: @escaping @Sendable () -> Void) -> Ticket? {
        state.withLock { state in
            guard !state.claims.isEmpty || bytes > state.free else {
                state.free -= bytes
                return nil
            }
            return state.claims.append(Claim(bytes: bytes, isAvailable: isAvailable))
        }
    }

    /// Leaves the line. Without effect once the bytes are taken.
    func cancel(_ ticket: Ticket) { serve { _ = $0.claims.remove(ticket) } }

    /// Gives bytes back.
    func release(_ bytes: Int) { serve { $0.free += bytes } }

    private func serve(after change: (inout State) -> Void) {
        let served: [Claim] = state.withLock { state in
            change(&state)
            var served: [Claim] = []
            while let (ticket, claim) = state.claims.first, claim.bytes <= state.free {
                state.claims.remove(ticket)
                state.free -= claim.bytes
                served.append(claim)
            }
            return served
        }
        for claim in served { claim.isAvailable() }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// Counts the wakes of each credential, and of each account with it.
struct WakeShares {
    struct Count {
        /// Includes the wakes in flight.
        var outstanding = 0
        var inFlight = 0
    }

    struct Holder: Hashable {
        let credential: PushCredentialID
        let account: WakeAccount
    }

    private let limits: WakeQueue.Limits
    private var credentials: [PushCredentialID: Count] = [:]
    private var holders: [Holder: Count] = [:]

    init(_ limits: WakeQueue.Limits) { self.limits = limits }

    /// The credentials with outstanding wakes.
    var inUse: [PushCredentialID] { Array(credentials.keys) }
    var isEmpty: Bool { credentials.isEmpty && holders.isEmpty }

    func mayAdd(_ holder: Holder) -> Bool {
        credentials[holder.credential, default: Count()].outstanding < limits.outstanding
            && holders[holder, default: Count()].outstanding < limits.outstandingPerAccount
    }

    func maySend(_ credential: PushCredentialID) -> Bool {
        credentials[credential, default: Count()].inFlight < limits.perCredential
    }

    func maySend(_ holder: Holder) -> Bool { holders[holder, default: Count()].inFlight < limits.perAccount }

    mutating func added(_ holder: Holder) { change(holder) { $0.outstanding += 1 } }
    mutating func removed(_ holder: Holder) { change(holder) { $0.outstanding -= 1 } }
    mutating func started(_ holder: Holder) { change(holder) { $0.inFlight += 1 } }
    mutating func finished(_ holder: Holder) { change(holder) { $0.inFlight -= 1 } }

    private mutating func change(_ holder: Holder, _ body: (inout Count) -> Void) {
        body(&credentials[holder.credential, default: Count()])
        body(&holders[holder, default: Count()])
        if credentials[holder.credential].map({ $0.outstanding <= 0 && $0.inFlight <= 0 }) == true { credentials[holder.credential] = nil }
        if holders[holder].map({ $0.outstanding <= 0 && $0.inFlight <= 0 }) == true { holders[holder] = nil }
    }
}

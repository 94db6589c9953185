// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

@testable import RelayServer

/// Remembers the wakes, and reports outcomes when the test says so.
final class RecordingWakes: WakeSender {
    private struct State {
        var kinds: Set<PushRegistration.Kind>
        var rejected: Set<PushRegistration.Kind> = []
        var requests: [WakeRequest] = []
        var reports: [@Sendable (WakeOutcome) -> Void] = []
        var connected: [EndpointID] = []
    }

    private let state: Mutex<State>

    init(_ kinds: Set<PushRegistration.Kind> = [.apns, .fcm, .wns, .webPush]) { state = Mutex(State(kinds: kinds)) }

    var wakeable: WakeableApps {
        state.withLock { state in
            let kinds = state.kinds.sorted { $0.rawValue < $1.rawValue }
            return WakeableApps(kinds.map { .init($0, isRejected: state.rejected.contains($0)) })
        }
    }

    /// Replaces the credentials of all apps.
    func setKinds(_ kinds: Set<PushRegistration.Kind>) { state.withLock { $0.kinds = kinds } }

    /// The push services reject these credentials.
    func setRejected(_ kinds: Set<PushRegistration.Kind>) { state.withLock { $0.rejected = kinds } }

    func wake(_ request: WakeRequest, report: @escaping @Sendable (WakeOutcome) -> Void) {
        state.withLock { state in
            state.requests.append(request)
            state.reports.append(report)
        }
    }

    func connected(_ endpoint: EndpointID, of account: AccountID) { state.withLock { $0.connected.append(endpoint) } }

    func forget(_ account: AccountID) { state.withLock { $0.requests.removeAll { $0.account == account } } }
    func hasWakes(of account: AccountID) -> Bool { state.withLock { $0.requests.contains { $0.account == account } } }

    /// The endpoints that have connected, oldest first.
    var connected: [EndpointID] { state.withLock { $0.connected } }

    /// The wakes since the last call.
    func take() -> [WakeRequest] {
        state.withLock { state in
            defer { state.requests = [] }
            return state.requests
        }
    }

    /// Reports the outcome of all wakes that have none.
    func report(_ outcome: WakeOutcome) {
        let reports = state.withLock { state in
            defer { state.reports = [] }
            return state.reports
        }
        for report in reports { report(outcome) }
    }
}

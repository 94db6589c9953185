// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import Synchronization

/// Wakes on their way to the push services.
extension RelayCore {
    /// The operator has changed the credentials of the push services: endpoints that wait are woken by the new ones at once.
    package func credentialsChanged() {
        guard jobs.withLock({ $0.isStarted }) else { return }
        refreshWakeable()
        let now = now().count
        transact { store in
            try store.restartWakes(at: now)
        } then: { _ in
        }
    }

    private func refreshWakeable() {
        let wakeable = wakeable
        run(jobs.withLock { $0.changed(wakeable) })
    }

    func send(_ request: WakeRequest) {
        wakes?.wake(request) { [self] outcome in
            if case .failed(let reason) = outcome {
                logger.info("a wake was not sent", metadata: ["endpoint": "\(request.payload.endpoint.label)", "reason": "\(reason)"])
            }
            refreshWakeable()
            change(request.account) { $0.waked(request, outcome) }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// SIGHUP: reloads the settings.
final class ReloadSignal: Sendable {
    /// One element for each signal. Signals that arrive between two reads are merged.
    let arrivals: AsyncStream<Void>
    private let listener: EndingSignals.Listener

    init() {
        let (arrivals, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        self.arrivals = arrivals
        listener = EndingSignals.listen(to: [SIGHUP], isOnce: false) { _ in continuation.yield() }
    }

    deinit { EndingSignals.remove(listener) }
}

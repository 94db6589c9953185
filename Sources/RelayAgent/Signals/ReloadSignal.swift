// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch
import Foundation
import Synchronization

/// SIGHUP: reloads the settings.
final class ReloadSignal: Sendable {
    /// One element for each signal. Signals that arrive between two reads are merged.
    let arrivals: AsyncStream<Void>
    private let source: Mutex<any DispatchSourceSignal>

    init() {
        let (arrivals, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        self.arrivals = arrivals
        signal(SIGHUP, SIG_IGN)
        let source = DispatchSource.makeSignalSource(signal: SIGHUP, queue: .global())
        source.setEventHandler { continuation.yield() }
        source.resume()
        self.source = Mutex(source)
    }

    deinit { source.withLock { $0.cancel() } }
}

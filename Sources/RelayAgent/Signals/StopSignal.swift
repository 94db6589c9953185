// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// SIGINT or SIGTERM: the user or the service manager stops the process. A second signal ends it at once.
final class StopSignal: Sendable {
    private let arrivals: AsyncStream<Void>
    private let sources: Mutex<[any DispatchSourceSignal]>

    /// Starts to listen. Signals that arrive earlier end the process.
    init() async {
        let (arrivals, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingOldest(1))
        self.arrivals = arrivals
        let sources = [SIGINT, SIGTERM].map { number -> any DispatchSourceSignal in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler {
                for number in [SIGINT, SIGTERM] { EndingSignals.restore(number) }
                continuation.yield()
            }
            return source
        }
        for source in sources {
            // Dispatch handles signals only after the source is registered, some time after `resume`.
            await withCheckedContinuation { continuation in
                source.setRegistrationHandler { continuation.resume() }
                source.resume()
            }
        }
        self.sources = Mutex(sources)
    }

    deinit {
        sources.withLock { for source in $0 { source.cancel() } }
        for number in [SIGINT, SIGTERM] { EndingSignals.restore(number) }
    }

    func arrived() async {
        for await _ in arrivals { return }
    }
}

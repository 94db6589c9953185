// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch
import Foundation
import Synchronization

/// The signals of a relay, in every state of its process from its first instruction:
///
/// | signal | what it does |
/// | --- | --- |
/// | SIGHUP | the relay reads its settings and certificates again, as soon as it has started |
/// | SIGTERM, SIGINT | the relay stops; a second one ends the process at once |
/// | SIGUSR1, SIGUSR2, SIGPIPE | nothing |
///
/// All others have their default action.
final class ProcessSignals: Sendable {
    /// One element for each SIGHUP. Signals that arrive between two reads are merged.
    let reloads: AsyncStream<Void>
    /// One element for the first SIGTERM or SIGINT.
    let stops: AsyncStream<Void>
    private let sources: Mutex<[any DispatchSourceSignal]>

    private static let ending = [SIGTERM, SIGINT]
    /// The ending signal that came before the relay could handle it; 0 if there is none.
    private static let early = Atomic<Int32>(0)
    /// Those that the parent process ignores, as a shell does for a program in the background.
    private static let ignored = ending.filter { unsafeBitCast(signal($0, SIG_IGN), to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self) }

    /// Ignores what would end the process by default, and keeps the first SIGTERM or SIGINT. Called before anything else.
    static func begin() {
        // Initialised before a handler runs.
        _ = early.load(ordering: .sequentiallyConsistent)
        _ = ignored
        for number in [SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE] { signal(number, SIG_IGN) }
        for number in ending {
            signal(number) { number in
                guard ProcessSignals.early.exchange(number, ordering: .sequentiallyConsistent) != 0 else { return }
                // The second one: what is on disk is complete at any time.
                _exit(128 + number)
            }
        }
    }

    /// Lets SIGTERM and SIGINT end the process, as they do for every command but `serve`.
    static func endDefault() {
        for number in ending { signal(number, ignored.contains(number) ? SIG_IGN : SIG_DFL) }
        let number = early.load(ordering: .sequentiallyConsistent)
        if number != 0 { raise(number) }
    }

    init() async {
        let (reloads, reload) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let (stops, stop) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        (self.reloads, self.stops) = (reloads, stops)
        let hangUp = DispatchSource.makeSignalSource(signal: SIGHUP, queue: .global())
        hangUp.setEventHandler { reload.yield() }
        let ends = Stopping(stop)
        let ending = Self.ending.map { number -> any DispatchSourceSignal in
            #if canImport(Darwin)
            // Without it the default action comes first there.
            signal(number, SIG_IGN)
            #endif
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { ends.arrived(number) }
            return source
        }
        let sources = [hangUp] + ending
        for source in sources {
            // Dispatch handles signals only after the source is registered, some time after `resume`.
            await withCheckedContinuation { continuation in
                source.setRegistrationHandler { continuation.resume() }
                source.resume()
            }
        }
        self.sources = Mutex(sources)
        // From here on, no handler of `begin` runs.
        let early = Self.early.load(ordering: .sequentiallyConsistent)
        if early != 0 { ends.arrived(early) }
    }

    deinit { sources.withLock { for source in $0 { source.cancel() } } }

    private final class Stopping: Sendable {
        private let hasBegun = Atomic(false)
        private let stop: AsyncStream<Void>.Continuation

        init(_ stop: AsyncStream<Void>.Continuation) { self.stop = stop }

        func arrived(_ number: Int32) {
            // The second one: what is on disk is complete at any time.
            if hasBegun.exchange(true, ordering: .relaxed) { _exit(128 + number) }
            stop.yield()
        }
    }
}

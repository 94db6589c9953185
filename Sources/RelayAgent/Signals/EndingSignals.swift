// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The signals that end a program. They end it as usual, but not while a login's tokens are exchanged: the process ends once they are
/// stored, which takes seconds. Otherwise the login would be lost.
package enum EndingSignals {
    private static let signals = [SIGINT, SIGTERM, SIGHUP]
    /// The signal that waits for the end of an exchange; 0 if there is none.
    private static let waiting = Atomic<Int32>(0)

    /// Handles the signals from now on. One that the parent process ignores, as `nohup` does, stays ignored.
    package static func install() {
        // Initialised before a handler runs.
        _ = waiting.load(ordering: .sequentiallyConsistent)
        _ = UnstoredExchange.isAnyOpen
        UnstoredExchange.whenNoneIsOpen { end() }
        for number in signals {
            var old = sigaction()
            sigaction(number, nil, &old)
            guard !isIgnored(old) else { continue }
            restore(number)
        }
    }

    /// Handles a signal in this way again, after code that handled it otherwise.
    static func restore(_ number: Int32) {
        signal(number) { number in
            EndingSignals.waiting.store(number, ordering: .sequentiallyConsistent)
            if !UnstoredExchange.isAnyOpen { EndingSignals.end() }
        }
    }

    /// Ends the process by the signal that waits. It is called by signal handlers, so it takes no lock and allocates nothing.
    private static func end() {
        let number = waiting.load(ordering: .sequentiallyConsistent)
        guard number != 0 else { return }
        signal(number, SIG_DFL)
        kill(getpid(), number)
    }

    private static func isIgnored(_ action: sigaction) -> Bool {
        #if canImport(Darwin)
        unsafeBitCast(action.__sigaction_u.__sa_handler, to: Int.self) == 1
        #else
        unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) == 1
        #endif
    }
}

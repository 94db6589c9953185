// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import Synchronization

/// The signals that end a program. They end it as usual, but not while a login's tokens are exchanged: the process ends once they are
/// stored, which takes seconds. Otherwise the login would be lost.
package enum EndingSignals {
    private static let signals = [SIGINT, SIGTERM, SIGHUP]
    /// Those that the parent process ignores, as `nohup` does. They stay ignored.
    private static let ignored = signals.filter { number in
        var action = sigaction()
        sigaction(number, nil, &action)
        return EndingSignals.isIgnored(action)
    }
    /// Those that stop a command which ends in order. The shell of a script ignores SIGINT for a program in the background, whose user may
    /// still send it.
    static let stopping = signals.filter { $0 != SIGHUP || !ignored.contains($0) }
    /// The signal that waits for the end of an exchange; 0 if there is none.
    private static let waiting = Atomic<Int32>(0)

    /// Handles the signals from now on.
    package static func install() {
        // Initialised before a handler runs.
        _ = waiting.load(ordering: .sequentiallyConsistent)
        _ = UnstoredExchange.isAnyOpen
        UnstoredExchange.whenNoneIsOpen { end() }
        restore(signals.filter { !ignored.contains($0) })
    }

    /// Handles signals in this way again, after code that handled them otherwise.
    static func restore(_ numbers: [Int32] = stopping) {
        for number in numbers {
            signal(number) { number in
                EndingSignals.waiting.store(number, ordering: .sequentiallyConsistent)
                if !UnstoredExchange.isAnyOpen { EndingSignals.end() }
            }
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

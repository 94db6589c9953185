// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Dispatch
import Foundation
import Synchronization

/// The signals that end a program. They end it as usual, but not while a login's tokens are exchanged: the process ends once they are
/// stored, which takes seconds. Otherwise the login would be lost. A part of the program that listens to a signal gets it instead.
///
/// Dispatch's own sources of signals are not used: the second one of a process, after the first was cancelled, gets no signal on Linux.
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

    // MARK: Listening

    /// Who gets signals.
    final class Listener: Sendable {
        fileprivate let signals: [Int32]
        fileprivate let isOnce: Bool
        fileprivate let deliver: @Sendable (Int32) -> Void

        fileprivate init(_ signals: [Int32], isOnce: Bool, _ deliver: @escaping @Sendable (Int32) -> Void) {
            self.signals = signals
            self.isOnce = isOnce
            self.deliver = deliver
        }
    }

    private static let listeners = Mutex<[Listener]>([])
    /// A set bit for each signal number that has a listener.
    private static let listened = Atomic<UInt64>(0)
    /// The write end of the pipe, to which handlers write signal numbers; negative until the first listener.
    private static let writeEnd = Atomic<Int32>(-1)
    /// Reads the numbers from the pipe.
    private static let reader = Mutex<(any DispatchSourceRead)?>(nil)

    /// Gets signals from now on, also those that the parent process ignores.
    /// - Parameter isOnce: Whether the first signal is the last one. Later ones then end the process.
    static func listen(to numbers: [Int32], isOnce: Bool, _ deliver: @escaping @Sendable (Int32) -> Void) -> Listener {
        let listener = Listener(numbers, isOnce: isOnce, deliver)
        // Without the pipe, signals go on to end the process.
        guard openPipe() else { return listener }
        change { $0.append(listener) }
        handle(numbers)
        return listener
    }

    /// Ends the listening. Signals end the process again.
    static func remove(_ listener: Listener) { change { $0.removeAll { $0 === listener } } }

    private static func change<Result: Sendable>(_ body: (inout [Listener]) -> Result) -> Result {
        listeners.withLock { listeners in
            defer {
                let bits = listeners.flatMap(\.signals).reduce(UInt64(0)) { $0 | bit($1) }
                listened.store(bits, ordering: .sequentiallyConsistent)
            }
            return body(&listeners)
        }
    }

    private static func bit(_ number: Int32) -> UInt64 { 1 << UInt64(truncatingIfNeeded: number & 63) }

    private static func openPipe() -> Bool {
        reader.withLock { reader in
            guard reader == nil else { return true }
            var ends: [Int32] = [-1, -1]
            guard pipe(&ends) == 0 else { return false }
            for end in ends {
                _ = fcntl(end, F_SETFD, FD_CLOEXEC)
                _ = fcntl(end, F_SETFL, O_NONBLOCK)
            }
            let source = DispatchSource.makeReadSource(fileDescriptor: ends[0], queue: DispatchQueue(label: "signals"))
            source.setEventHandler { [end = ends[0]] in
                var number: UInt8 = 0
                while read(end, &number, 1) == 1 { deliver(Int32(number)) }
            }
            source.resume()
            reader = source
            writeEnd.store(ends[1], ordering: .sequentiallyConsistent)
            return true
        }
    }

    /// Passes a signal on. Without a listener it ends the process.
    private static func deliver(_ number: Int32) {
        let receivers = change { listeners in
            let receivers = listeners.filter { $0.signals.contains(number) }
            listeners.removeAll { listener in listener.isOnce && receivers.contains { $0 === listener } }
            return receivers
        }
        guard !receivers.isEmpty else { return end(by: number) }
        for receiver in receivers { receiver.deliver(number) }
    }

    // MARK: Ending

    /// Handles the signals from now on.
    package static func install() {
        // Initialised before a handler runs.
        _ = waiting.load(ordering: .sequentiallyConsistent)
        _ = listened.load(ordering: .sequentiallyConsistent)
        _ = writeEnd.load(ordering: .sequentiallyConsistent)
        _ = UnstoredExchange.isAnyOpen
        UnstoredExchange.whenNoneIsOpen { end() }
        handle(signals.filter { !ignored.contains($0) })
    }

    /// Handlers take no lock and allocate nothing.
    private static func handle(_ numbers: [Int32]) {
        for number in numbers {
            signal(number) { number in
                guard EndingSignals.listened.load(ordering: .sequentiallyConsistent) & EndingSignals.bit(number) != 0 else {
                    return EndingSignals.end(by: number)
                }
                let error = errno
                var byte = UInt8(truncatingIfNeeded: number)
                _ = write(EndingSignals.writeEnd.load(ordering: .sequentiallyConsistent), &byte, 1)
                errno = error
            }
        }
    }

    private static func end(by number: Int32) {
        waiting.store(number, ordering: .sequentiallyConsistent)
        if !UnstoredExchange.isAnyOpen { end() }
    }

    /// Ends the process by the signal that waits.
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

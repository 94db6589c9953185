// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// The progress of a transfer, for the terminal.
final class TransferProgress: Sendable {
    private struct State {
        var name = ""
        var size: Int64 = 0
        var start: Int64 = 0
        var reached: Int64 = 0
        var since = ContinuousClock.now
    }

    private let state = Mutex(State())
    private let bytes = Mutex<Int64>(0)

    /// The bytes that have arrived, of all files and attempts.
    var arrived: Int64 { bytes.withLock { $0 } }

    func begin(_ name: String, size: Int64, at start: Int64) {
        state.withLock { $0 = State(name: DisplayText.sanitized(name), size: size, start: start, reached: start) }
    }

    func reached(_ position: Int64) {
        let more = state.withLock { state in
            defer { state.reached = position }
            return max(0, position - state.reached)
        }
        bytes.withLock { $0 += more }
    }

    /// Nothing arrives until `begin`.
    func interrupted() { state.withLock { $0.size = 0 } }

    /// The progress as one line.
    func line(now: ContinuousClock.Instant = .now) -> String {
        let state = state.withLock { $0 }
        guard state.size > 0 else { return "waiting for the other device" }
        let seconds = max((now - state.since) / .seconds(1), 0.001)
        let rate = Double(state.reached - state.start) / seconds
        let share = Double(state.reached) / Double(state.size)
        let cells = 20
        let full = min(cells, Int(share * Double(cells)))
        let bar = String(repeating: "#", count: full) + String(repeating: "-", count: cells - full)
        var text = "[\(bar)] \(Int(share * 100)) % of \(ByteCount.text(state.size)), \(ByteCount.text(Int64(min(rate, 1e15))))/s"
        if rate >= 1 { text += ", \(Self.time(Double(state.size - state.reached) / rate)) left" }
        return "\(text)  \(state.name)"
    }

    private static func time(_ seconds: Double) -> String {
        let seconds = Int(min(seconds, 359_999).rounded(.up))
        return seconds < 60 ? "\(seconds) s" : seconds < 3_600 ? "\(seconds / 60) min" : "\(seconds / 3_600) h"
    }
}

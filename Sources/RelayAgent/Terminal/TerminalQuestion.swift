// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch
import Foundation
import ProgramTexts
import Synchronization

/// Asks the user at the terminal, one question at a time.
actor TerminalQuestion {
    private static let shortest = Duration.seconds(5)

    private let console: Console
    private var last: Task<Bool?, Never>?
    /// The questions that give way to others. A cancelled one may still be waiting for the one before it, so all are kept.
    private var yielding: [Task<Bool?, Never>] = []

    init(console: Console) { self.console = console }

    /// Whether a user can be asked. A background process must not read from its terminal.
    static var isPossible: Bool { isatty(0) == 1 && isatty(2) == 1 && tcgetpgrp(0) == getpgrp() }

    /// Asks a question. One time limit covers the wait for earlier questions and for the answer, so it bounds how long a
    /// later launch waits.
    /// - Parameters:
    ///   - yes: The answers that mean yes, in lower case; `nil` for the usual ones. Any other answer means no.
    ///   - yields: Whether a later question ends this one without an answer.
    /// - Returns: `nil` if there is no answer in time or the task is cancelled.
    func ask(
        _ lines: [String],
        _ question: String,
        yes: Set<String>? = nil,
        within patience: Duration,
        yields: Bool = false
    ) async -> Bool? {
        if !yields {
            for question in yielding { question.cancel() }
            yielding = []
        }
        let previous = last
        let console = console
        let end = ContinuousClock.now + patience
        let task = Task { () -> Bool? in  // Owner: this function waits for it
            // The previous question started earlier, so its time limit ends earlier, or it yields.
            _ = await previous?.value
            let left = ContinuousClock.now.duration(to: end)
            guard left >= Self.shortest, Self.isPossible, !Task.isCancelled else { return nil }
            // Input that was typed before the question is not an answer.
            tcflush(0, TCIFLUSH)
            console.note((lines + [question]).joined(separator: "\n"))
            let answer = await Self.line(until: end)
            if answer == nil { console.note("(no answer)") }
            return answer.map { (yes ?? console.translation.yes).contains($0.lowercased()) }
        }
        last = task
        if yields { yielding.append(task) }
        defer { yielding.removeAll { $0 == task } }
        return await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
    }

    /// Reads a line of standard input; `nil` after the deadline or a cancellation.
    private static func line(until end: ContinuousClock.Instant) async -> String? {
        let isCancelled = Mutex(false)
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                DispatchQueue.global().async {
                    while ContinuousClock.now < end, !isCancelled.withLock({ $0 }), isPossible {
                        var input = pollfd(fd: 0, events: Int16(POLLIN), revents: 0)
                        guard poll(&input, 1, 200) > 0 else { continue }
                        var bytes = [UInt8](repeating: 0, count: 256)
                        let count = read(0, &bytes, bytes.count)
                        guard count > 0 else { break }
                        let text = String(decoding: bytes.prefix(count), as: UTF8.self)
                        return continuation.resume(returning: String(text.prefix { !$0.isNewline && $0 != " " }))
                    }
                    continuation.resume(returning: nil)
                }
            }
        } onCancel: {
            isCancelled.withLock { $0 = true }
        }
    }
}

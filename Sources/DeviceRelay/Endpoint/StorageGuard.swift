// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import RelayProtocol

/// Stops an endpoint while its storage fails: the disk is full or defective, or another process keeps the journal locked. It tests the
/// storage again after pauses that double.
final class StorageGuard {
    static let firstPause: Int64 = 1_000
    static let maximumPause: Int64 = 60_000

    private let loop: EndpointLoop
    private let journal: Journal
    private let logger: Logger
    private var pause: Int64 = 0
    private var failed: Int64?
    private var timer: Scheduled<Void>?
    /// The time of the next test, by the steady clock; `nil` while the storage is believed to work.
    private(set) var until: Int64?
    /// Called when the storage fails.
    var onFailure: (any Error) -> Void = { _ in }
    /// Called when the storage works again.
    var onRecovery: () -> Void = {}
    /// After the end no test runs.
    private var hasEnded = false

    init(_ loop: EndpointLoop, _ journal: Journal, _ logger: Logger) {
        self.loop = loop
        self.journal = journal
        self.logger = logger
    }

    var isUsable: Bool { until == nil }

    func fail(_ error: any Error) {
        guard !hasEnded else { return }
        logger.error("the storage cannot be used", metadata: ["error": "\(type(of: error))"])
        let now = loop.now
        // The pause doubles, unless the last failure was long ago.
        let isAgain = failed.map { now - $0 < 2 * Self.maximumPause } ?? false
        pause = isAgain ? min(2 * pause, Self.maximumPause) : Self.firstPause
        failed = now
        until = now + pause
        timer?.cancel()
        timer = loop.after(pause) { [weak self] in
            guard let self else { return }
            loop.spawn(self) { await $0.tryAgain() }
        }
        onFailure(error)
    }

    /// Cancels the pending test, because the app starts or suspends the endpoint.
    func reset() {
        timer?.cancel()
        timer = nil
        until = nil
    }

    func end() {
        hasEnded = true
        reset()
    }

    private func tryAgain() async {
        do {
            try await journal.write { try $0.probe() }
            // The app may have suspended the endpoint in the meantime.
            if until != nil { onRecovery() }
        } catch {
            if until != nil { fail(error) }
        }
    }
}

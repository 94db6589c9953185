// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import RelayProtocol

/// Sees to it that an endpoint makes no promises while they cannot be stored: the disk is full or fails, or another process keeps the
/// journal locked. It tries again by itself, with pauses that double.
final class StorageGuard {
    static let firstPause: Int64 = 1_000
    static let maximumPause: Int64 = 60_000

    private let loop: EndpointLoop
    private let journal: Journal
    private let logger: Logger
    private var pause: Int64 = 0
    private var failed: Int64?
    private var timer: Scheduled<Void>?
    /// When it is tried again, by the steady clock; `nil` while the storage can be used, as far as is known.
    private(set) var until: Int64?
    /// What happens when it fails.
    var onFailure: (any Error) -> Void = { _ in }
    /// What happens when it can be used again.
    var onRecovery: () -> Void = {}
    /// Nothing is tried any more.
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
        // The pause doubles, unless the last time was long ago.
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

    /// The person wants it to be tried now, or not at all.
    func reset() {
        timer?.cancel()
        timer = nil
        until = nil
    }

    func end() {
        hasEnded = true
        reset()
    }

    private nonisolated(nonsending) func tryAgain() async {
        do {
            try await journal.write { try $0.probe() }
            // The person may have suspended the endpoint meanwhile.
            if until != nil { onRecovery() }
        } catch {
            if until != nil { fail(error) }
        }
    }
}

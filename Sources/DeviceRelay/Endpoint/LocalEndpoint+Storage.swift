// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import RelayProtocol

/// What must be stored cannot be: the disk is full or fails, or somebody keeps the journal locked.
struct StorageTrouble {
    static let firstPause: Int64 = 1_000
    static let longestPause: Int64 = 60_000

    private var pause: Int64 = 0
    private var failed: Int64?
    /// When it is tried again; `nil` while it can be used, as far as is known.
    private(set) var until: Int64?
    var timer: Scheduled<Void>?

    /// It failed once more: the pause doubles, unless the last time was long ago.
    mutating func fail(now: Int64) -> Int64 {
        let isAgain = failed.map { now - $0 < 2 * Self.longestPause } ?? false
        pause = isAgain ? min(2 * pause, Self.longestPause) : Self.firstPause
        failed = now
        until = now + pause
        return pause
    }

    mutating func end() {
        timer?.cancel()
        timer = nil
        until = nil
    }
}

extension LocalEndpoint {
    /// Nothing is promised any more until it can be stored again, which is tried by itself.
    func storageFailed(_ error: any Error) {
        guard !isShutDown else { return }
        logger.error("the storage cannot be used", metadata: ["error": "\(type(of: error))"])
        storageTrouble.end()
        let pause = storageTrouble.fail(now: now)
        storageTrouble.timer = after(pause) { endpoint in
            endpoint.spawn { [weak endpoint] in await endpoint?.tryStorage() }
        }
        perform(channel.leave(.suspended, now: now))
        problem = ConnectionProblem(.storageFailed, "\(error)")
        publishState()
    }

    /// What opens things that are sealed for this endpoint; nothing if that is damaged, since waiting does not mend it.
    func agreementKeys() throws(StorageError) -> [any AgreementKey] {
        do {
            return try storage.agreementKeys()
        } catch {
            if case .damaged = error.problem { return [] }
            throw error
        }
    }

    private func tryStorage() async {
        do {
            try await journal.write { try $0.probe() }
            // The person may have suspended it meanwhile.
            if storageTrouble.until != nil { await start() }
        } catch {
            if storageTrouble.until != nil { storageFailed(error) }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import RelayProtocol
import RelayStorage

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
            endpoint.spawn { await $0.tryStorage() }
        }
        perform(channel.leave(.suspended, now: now))
        problem = ConnectionProblem(.storageFailed, "\(error)")
        publishState()
    }

    /// What opens what is sealed for this endpoint's key of that id; nothing of use if the keys are damaged, since waiting does not mend that.
    /// They are read only if none of those read last is meant: another process of this endpoint may have made a new one.
    func agreementKeys(for id: [UInt8]) throws(StorageError) -> [any AgreementKey] {
        if agreementKeys.contains(where: { $0.publicKey.keyID == id }) { return agreementKeys }
        do {
            agreementKeys = try storage.agreementKeys()
        } catch {
            guard case .damaged = error.problem else { throw error }
            agreementKeys = []
        }
        return agreementKeys
    }

    /// Sees to it that what is to be stored soon is, by one timer for all of it.
    func linger() {
        guard !isLingering, !isShutDown, !noted.isEmpty || !answered.isEmpty || !settled.isEmpty else { return }
        isLingering = true
        _ = after(Lingering<CommandID, SentCommand>.time) { endpoint in
            endpoint.isLingering = false
            if endpoint.storageTrouble.until == nil {
                if !endpoint.noted.isEmpty { endpoint.sentWork.append(.storeNoted) }
                endpoint.workOnSent()
                endpoint.storeNotedResults()
            }
            endpoint.linger()
        }
    }

    /// What waits for another commit, at the end. Whatever is lost of it is told again.
    func storeTheRest() async {
        let (noted, settled, answered) = (noted.takeAll(), settled, answered.takeAll())
        self.settled = []
        guard !noted.isEmpty || !settled.isEmpty || !answered.isEmpty else { return }
        try? await journal.write { transaction in
            for row in noted { try transaction.update(row) }
            for key in settled { try transaction.remove(key) }
            for answer in answered { try transaction.persist(answer.row, highest: nil, result: answer.result) }
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

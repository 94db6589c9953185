// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

/// The transfers of the API's clients. They end with the agent.
final class Transfers: Sendable {
    /// How many may be open at once.
    static let maximum = 16
    /// How many that have ended are kept for their clients.
    static let kept = 64

    private struct State {
        var all: [Transfer] = []
        var isOver = false
    }

    private let state = Mutex(State())
    private let new: AsyncStream<Transfer>
    private let added: AsyncStream<Transfer>.Continuation
    private let log: EventLog

    init(_ log: EventLog) {
        self.log = log
        (new, added) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Self.maximum))
    }

    /// Follows all transfers until the task is cancelled, which cancels them.
    func run() async {
        await withDiscardingTaskGroup { group in
            for await transfer in new { group.addTask { [log] in await transfer.follow { Self.tell($0, log) } } }
        }
        let left = state.withLock { state in
            state.isOver = true
            return state.all
        }
        for transfer in left { transfer.end() }
    }

    private static func tell(_ transfer: Transfer, _ log: EventLog) {
        guard let json = try? JSONText.line(transfer.result) else { return }
        let device = "\(transfer.system.id)"
        log.add(.transfer, device: device, command: nil, principal: transfer.principal, json: DisplayText.escaped(json: json))
    }

    /// Adds one that begins.
    /// - Throws: `APIRefusal` if too many are open. Nothing is begun then.
    func add(_ begin: () throws -> Transfer) throws -> Transfer {
        try state.withLock { state in
            guard !state.isOver else { throw CancellationError() }
            guard state.all.count(where: { !$0.hasEnded }) < Self.maximum else {
                let what = "there are \(Self.maximum) open transfers; wait for the end of one"
                throw APIRefusal(429, AgentError("limitExceeded", what, .failed), retryAfter: 30)
            }
            let transfer = try begin()
            state.all.append(transfer)
            let ended = state.all.count(where: \.hasEnded)
            if ended > Self.kept, let oldest = state.all.firstIndex(where: \.hasEnded) { state.all.remove(at: oldest) }
            added.yield(transfer)
            return transfer
        }
    }

    /// Those that a principal may see.
    func visible(to principal: Principal) -> [Transfer] {
        let all = state.withLock { $0.all }
        guard case .token = principal else { return all }
        return all.filter { $0.principal == principal.id }
    }

    /// Cancels those of tokens that are not in a list.
    func cancel(exceptOf tokens: [APIToken]) {
        let kept = Set(tokens.map { Principal.token($0).id } + [Principal.owner.id])
        for transfer in state.withLock({ $0.all }) where !kept.contains(transfer.principal) { transfer.cancel() }
    }
}

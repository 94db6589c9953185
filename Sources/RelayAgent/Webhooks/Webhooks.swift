// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation

/// The webhooks of the agent: their outbox, and the tasks that fill it and send it.
struct Webhooks: Sendable {
    let local: LocalDevice
    let store: AgentStore
    let events: EventLog
    /// How often the stored webhooks have changed. The tasks wait for it.
    private let revision = CurrentValue(0)
    /// The system's clock may change while nothing happens.
    static let longestWait = Duration.seconds(60)

    /// Runs until the task is cancelled.
    func run() async {
        await withDiscardingTaskGroup { group in
            let source = WebhookSource(local: local, webhooks: self)
            for account in local.accounts { group.addTask { await source.commands(account) } }
            group.addTask { await source.devices() }
            group.addTask { await send() }
        }
    }

    /// Lets the tasks look again.
    func changed() { revision.update { $0 += 1 } }

    var seen: Int { revision.value }

    /// Waits for a change. A token ends by time, so while there is a webhook the wait ends after a while.
    func wait(after seen: Int) async {
        if (try? await store.hasWebhooks()) ?? true {
            await wait(after: seen, within: Self.longestWait)
        } else {
            _ = await revision.first { $0 != seen }
        }
    }

    /// Waits for a change, for a while.
    func wait(after seen: Int, within patience: Duration) async {
        _ = await revision.first(within: min(patience, Self.longestWait)) { $0 != seen }
    }

    /// Adds a webhook, which gets what happens from now on.
    /// - Throws: `AgentError`, `APIRefusal`.
    func add(_ webhook: Webhook, _ secret: WebhookSecret) async throws {
        var positions: [String: CommandSequence] = [:]
        for account in local.accounts { positions[account.id] = try await local.platform.lastCommandChange(for: account) }
        try await store.add(webhook, secret, from: positions)
        changed()
    }

    /// One sender for each webhook, which bounds the connections.
    private func send() async {
        await withDiscardingTaskGroup { group in
            var running: Set<String> = []
            while !Task.isCancelled {
                let seen = seen
                // The storage works again later.
                if let ids = try? await store.activeWebhookIDs() {
                    for id in ids where running.insert(id).inserted {
                        group.addTask { await WebhookSender(webhook: id, webhooks: self).run() }
                    }
                    running.formIntersection(ids)
                }
                await wait(after: seen)
            }
        }
    }
}

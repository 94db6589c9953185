// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// Writes what happens to the outbox of the webhooks.
struct WebhookSource: Sendable {
    let local: LocalDevice
    let webhooks: Webhooks

    private var store: AgentStore { webhooks.store }

    // MARK: Commands

    /// Follows the commands of an account. Messages and the place that they were made from are stored together, so an end of the agent in
    /// between neither loses nor doubles one.
    func commands(_ account: ConnectedDevicesAccount) async {
        while !Task.isCancelled {
            let seen = webhooks.seen
            do {
                guard let position = try await store.webhookPosition(of: account.id) else {
                    // There is no webhook, or the account is new.
                    let last = try await local.platform.lastCommandChange(for: account)
                    if try await !store.beginCommands(of: account.id, at: last) { await webhooks.wait(after: seen) }
                    continue
                }
                let next = try await local.platform.commandChanges(for: account, after: position)
                if next.hasGap {
                    let last = try await local.platform.lastCommandChange(for: account)
                    // A lower one is that of a new journal.
                    let missed = Int(clamping: last > position ? last.rawValue - position.rawValue : 1)
                    try await store.skipCommands(of: account.id, from: position, to: last, missed: missed)
                }
                guard let newest = next.changes.last else { continue }
                let messages = try await messages(of: next.changes)
                try await store.addMessages(messages, of: account.id, from: position, to: newest.sequence, at: .now)
                webhooks.changed()
            } catch {
                // The storage works again later. A cancelled task ends the loop.
                try? await Task.sleep(for: .seconds(1))
            }
        }
    }

    /// Ids and the outcome. Who may read more asks for it.
    private struct CommandData: Encodable {
        var command: String
        /// As in `GET /v1/commands/{id}`.
        var status: String
        var device: String?
        var endpoint: String?
        var app: String?
        /// `target` or `relay`.
        var attestedBy: String?
        var uri: String?
    }

    private func messages(of changes: [CommandChange]) async throws -> [WebhookMessage] {
        let all = try await store.activeWebhooks().filter { !$0.types.isDisjoint(with: [.progress, .final]) }
        guard !all.isEmpty else { return [] }
        var own: [String: Set<String>] = [:]
        for case .token(let token) in all.map(\.principal) where !token.scopes.contains(.commands) {
            own[token.id] = try await local.submitted(by: Principal.token(token).id)
        }
        let endpoints = local.endpoints
        var messages: [WebhookMessage] = []
        for change in changes {
            let entry = try await CommandList.entry(change.id, on: local)
            let device = entry.flatMap { entry in endpoints.first { "\($0.id)" == entry.endpoint }.map { "\($0.systemID)" } }
            let type: WebhookEventType
            var data = CommandData(command: "\(change.id)", status: "stored", device: device, endpoint: entry?.endpoint, app: entry?.app)
            switch change.state {
            case .stored: type = .progress
            case .progress(let status): (type, data.status) = (.progress, CommandList.name(of: status))
            case .ended:
                type = .final
                // The outcome of a command that has been deleted meanwhile is not known.
                data.status = entry?.status ?? "ended"
                data.attestedBy = entry?.attested?.by
            }
            let uri = all.contains(where: \.includesURI) ? try await local.command(change.id)?.content()?.uri : nil
            for webhook in all where webhook.types.contains(type) && webhook.sees(device: device) {
                if let token = webhook.token, !token.scopes.contains(.commands), own[token.id]?.contains(data.command) != true { continue }
                data.uri = uri.flatMap { webhook.shows($0) ? $0.text : nil }
                messages.append(try WebhookMessage(type, to: webhook, data, at: .now))
            }
        }
        return messages
    }

    // MARK: Devices

    private struct DeviceData: Encodable {
        /// `nil` if any may have changed.
        var device: String?
    }

    /// Follows the devices by the log of events. A message only says to read again, so one for each device waits.
    func devices() async {
        var last: Int64 = 0
        while !Task.isCancelled {
            var devices: Set<String?> = []
            if let events = webhooks.events.events(after: last) {
                last = events.last?.sequence ?? last
                for case (.device, let device?) in events.map({ ($0.kind, $0.device) }) { devices.insert(device) }
            } else {
                last = webhooks.events.last
                devices = [nil]
            }
            if !devices.isEmpty {
                // A failure loses what the next change says again.
                try? await changed(devices)
            } else {
                await webhooks.events.wait(after: last)
            }
        }
    }

    private func changed(_ devices: Set<String?>) async throws {
        let all = try await store.activeWebhooks().filter { $0.types.contains(.device) }
        guard !all.isEmpty else { return }
        let messages = try all.flatMap { webhook in
            try devices.filter { $0.map(webhook.principal.sees) ?? true }
                .map { try WebhookMessage(.device, to: webhook, device: $0 ?? "", DeviceData(device: $0), at: .now) }
        }
        try await store.addMessages(messages, at: .now)
        webhooks.changed()
    }
}

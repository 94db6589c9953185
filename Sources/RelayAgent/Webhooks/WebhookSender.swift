// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import NIOCore
import NIOHTTP1
import RelayProtocol

/// Sends the messages of one webhook, one at a time.
struct WebhookSender: Sendable {
    /// Its id.
    let webhook: String
    let webhooks: Webhooks

    /// The limit of an attempt.
    private static let timeout = Duration.seconds(15)

    private var store: AgentStore { webhooks.store }

    /// Runs until the webhook has ended.
    func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await send() }
            // A request that is under way ends with the webhook.
            group.addTask { await untilEnded() }
            await group.next()
            group.cancelAll()
        }
    }

    private func untilEnded() async {
        while !Task.isCancelled {
            let seen = webhooks.seen
            if let active = try? await store.activeWebhookIDs(), !active.contains(webhook) { return }
            await webhooks.wait(after: seen)
        }
    }

    private func send() async {
        while !Task.isCancelled {
            let seen = webhooks.seen
            do {
                switch try await store.nextStep(of: webhook, at: .now) {
                case .end: return
                case .wait(let seconds):
                    await webhooks.wait(after: seen, within: seconds.map { .seconds($0) } ?? Webhooks.longestWait)
                case .send(let message):
                    let answer = await answer(to: message)
                    // What a cancelled request has done is not known. It is sent again.
                    guard !Task.isCancelled else { return }
                    try await store.end(message, answer, at: .now)
                }
            } catch {
                // The storage works again later.
                try? await Task.sleep(for: .seconds(1))
            }
        }
    }

    private func answer(to message: AgentStore.OutgoingMessage) async -> WebhookDelivery.Answer {
        let end = ContinuousClock.now + Self.timeout
        guard let address = try? WebhookAddress(message.url, mayBePrivate: message.mayBePrivate),
            let places = try? await address.addresses(), let url = URL(exactly: address.target.origin),
            let server = try? RelayAddress(url, allowsPlaintext: true)
        else { return .nothing }
        let request = message.request(to: address.target, at: .now)
        for (index, place) in places.enumerated() {
            let left = Int64(ContinuousClock.now.duration(to: end) / .milliseconds(1))
            guard left > 0 else { return .nothing }
            // An address that is silent leaves time for the next one.
            let client = HTTPRequestClient(timeout: left, connectTimeout: max(1, left / Int64(places.count - index)), maximumBodyBytes: nil)
            do throws(RequestFailure) {
                let answer = try await client.send(request, to: server, at: place, trust: RelayTrust(relay: nil))
                let pause = answer.headers.first(name: "Retry-After").flatMap {
                    HTTPDate.retryAfter($0, now: Int64(Date.now.timeIntervalSince1970 * 1_000))
                }
                return .status(answer.status, retryAfter: pause.map { Double($0) / 1_000 })
            } catch {
                // The next address, if no connection was made. After that, the receiver may have the message.
                guard case .failed(.unreachable) = error, error != .failed(.hungUp) else { return .nothing }
            }
        }
        return .nothing
    }
}

extension AgentStore.OutgoingMessage {
    fileprivate func request(to target: DialTarget, at now: Date) -> HTTPRequest {
        let timestamp = Int64(now.timeIntervalSince1970)
        let headers: HTTPHeaders = [
            "Content-Type": "application/json", "User-Agent": "device-relay", "webhook-id": id, "webhook-timestamp": "\(timestamp)",
            "webhook-signature": secret.signature(of: body, id: id, timestamp: timestamp, now: now),
        ]
        let path = target.path.utf8.first == UInt8(ascii: "/") ? target.path : "/" + target.path
        return HTTPRequest(.POST, path, headers: headers, body: Array(body.utf8))
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol
import RelayStorage
import Synchronization

/// Notifies the person of new endpoints while the agent runs: on the desktop with buttons, else with a question at the terminal, else only
/// with a note and in `relay devices`.
struct NewDeviceWatch: Sendable {
    let local: LocalDevice
    let home: Home
    let desktop: DesktopNotifier
    /// The terminal for questions; `nil` if the agent must not use one.
    let terminal: TerminalQuestion?
    let board: AskBoard
    let note: @Sendable (String) -> Void

    /// Runs until the task is cancelled.
    func run() async {
        let current = CurrentEndpoints()
        let (events, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        await withDiscardingTaskGroup { group in
            group.addTask {
                for await endpoints in local.platform.newEndpoints(for: local.account) {
                    current.set(endpoints)
                    board.show(newDevices: endpoints.map { Ask($0) })
                    continuation.yield()
                }
                continuation.finish()
            }
            var queue = NewDeviceQueue(notified: home.notifiedEndpoints())
            var timer: ContinuousClock.Instant?
            for await _ in events {
                let now = ContinuousClock.now
                let before = queue.notified
                queue.set(current.endpoints, at: now)
                var notices: [NewDeviceQueue.Notice] = []
                while let notice = queue.next(at: now) { notices.append(notice) }
                // Stored first, so that a crash causes no second notice.
                if queue.notified != before { home.store(notifiedEndpoints: queue.notified) }
                for notice in notices { group.addTask { await give(notice) } }
                if let timer, timer > now { continue }
                timer = queue.nextTime
                guard let time = timer else { continue }
                group.addTask {
                    try? await Task.sleep(until: time, clock: .continuous)
                    continuation.yield()
                }
            }
            group.cancelAll()
        }
    }

    private func give(_ notice: NewDeviceQueue.Notice) async {
        switch notice {
        case .more(let count):
            note(NewDeviceText.more(count))
            _ = await desktop.show(NewDeviceText.title, NewDeviceText.more(count), actions: [])
        case .endpoint(let endpoint):
            note(
                "new device: \(NewDeviceText.facts(endpoint).joined(separator: "; ")); "
                    + "run relay approve \(endpoint.id), or relay revoke and the same id"
            )
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await ask(about: endpoint) }
                group.addTask { await isNoLongerNew(endpoint) }
                await group.next()
                group.cancelAll()
            }
        }
    }

    private func ask(about endpoint: NewEndpoint) async {
        let facts = NewDeviceText.facts(endpoint)
        let body = (facts + [NewDeviceText.advice]).joined(separator: "\n")
        switch await desktop.show(NewDeviceText.title, body, actions: [.approve, .refuse]) {
        case .action(let action): await carryOut(action, on: endpoint)
        case .none: break
        case .unavailable:
            guard let terminal, !Task.isCancelled, TerminalQuestion.isPossible else { break }
            let lines = ["A new device is on your account."] + facts.map { "  \($0)" } + [NewDeviceText.advice]
            // The answer to a question about a launch approves nothing.
            let answer = await terminal.ask(
                lines,
                "Approve it? Type approve, or nothing to leave it new.",
                yes: ["approve"],
                within: DesktopNotifier.patience,
                yields: true
            )
            if answer ?? false { await carryOut(.approve, on: endpoint) }
        }
    }

    /// Does what `relay approve` and `relay revoke` do.
    private func carryOut(_ action: DesktopNotifier.Action, on endpoint: NewEndpoint) async {
        let name = DisplayText.quoted(endpoint.deviceName)
        // A decision is carried out even if the endpoint leaves the list meanwhile, which the decision itself brings about.
        await Task {
            do throws(AccountError) {
                switch action {
                case .approve:
                    try await local.platform.approve(endpoint)
                    note("approved \(name), endpoint \(endpoint.id)")
                case .refuse:
                    try await local.platform.refuse(endpoint)
                    note("revoked \(name), endpoint \(endpoint.id)")
                // Of other questions.
                case .open, .take, .decline: break
                }
            } catch {
                note("\(name), endpoint \(endpoint.id): \(DisplayText.sanitized(error.message))")
            }
        }.value
    }

    /// Returns when the endpoint is approved, revoked or gone.
    private func isNoLongerNew(_ endpoint: NewEndpoint) async {
        for await endpoints in local.platform.newEndpoints(for: local.account) where !endpoints.contains(where: { $0.id == endpoint.id }) {
            return
        }
    }
}

/// The new endpoints at this moment.
private final class CurrentEndpoints: Sendable {
    private let value = Mutex<[NewEndpoint]>([])

    var endpoints: [NewEndpoint] { value.withLock { $0 } }

    func set(_ endpoints: [NewEndpoint]) { value.withLock { $0 = endpoints } }
}

extension Home {
    private var notifiedFile: String { path + "/notified-devices" }

    /// The new endpoints of which the agent has notified the person; empty if the file is missing or damaged.
    fileprivate func notifiedEndpoints() -> Set<EndpointID> {
        guard let bytes = try? PrivateFile.contents(of: notifiedFile) else { return [] }
        return Set(bytes.split(separator: UInt8(ascii: "\n")).compactMap { EndpointID(String(decoding: $0, as: UTF8.self)) })
    }

    /// Stores the endpoints, one id a line. The directory bounds their number. If this fails, the person may be notified again.
    fileprivate func store(notifiedEndpoints endpoints: Set<EndpointID>) {
        let text = endpoints.sorted().map { "\($0)\n" }.joined()
        try? PrivateFile.replace(notifiedFile, with: Array(text.utf8))
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import RelayProtocol

/// Server-sent events (WHATWG HTML, section 9.2) of the API. The id of an event is the agent's instance and the event's sequence.
struct EventStream: Sendable {
    let log: EventLog
    let instance: String
    let principal: Principal
    let store: AgentStore
    let local: LocalDevice
    let board: AskBoard
    let console: ConsoleDoor
    /// The types that the reader wants.
    let kinds: Set<EventLog.Event.Kind>

    /// A comment keeps the connection, and finds a reader that has gone.
    private static let interval = Duration.seconds(15)

    func response(to request: Request, _ bounds: APIBounds) throws -> Response {
        var last = log.last
        var isReset = false
        if let id = request.header("Last-Event-ID") {
            let parts = id.split(separator: ":")
            if parts.count == 2, parts[0] == instance, let sequence = Int64(parts[1]), log.events(after: sequence) != nil {
                last = sequence
            } else {
                isReset = true
            }
        }
        let (first, resets) = (last, isReset)
        let slot = try StreamSlot(bounds, principal)
        let headers: HTTPFields = [
            .contentType: "text/event-stream", .cacheControl: "no-store", .xContentTypeOptions: "nosniff",
        ]
        return Response(
            status: .ok,
            headers: headers,
            body: .init { writer in
                // It is held until the stream ends, also if it never begins.
                _ = slot
                if isAnswerer { board.readerCame() }
                defer { if isAnswerer { board.readerLeft() } }
                try await write(after: first, resets: resets, to: &writer)
                try await writer.finish(nil)
            }
        )
    }

    @concurrent private func write(after first: Int64, resets: Bool, to writer: inout some ResponseBodyWriter) async throws {
        var last = first
        try await writer.write(Self.bytes(": \(instance)\n\n"))
        if resets { try await writer.write(text(.reset, last, "{}")) }
        while !Task.isCancelled {
            // A reader that is too slow for what is kept has missed some. It reads everything again.
            guard let events = log.events(after: last), try await principal.isValid(in: store, console) else { return }
            let seen = try await visible(events)
            for event in seen { try await writer.write(text(event.kind, event.sequence, event.json)) }
            if let newest = events.last { last = newest.sequence }
            if events.isEmpty {
                await log.wait(after: last, within: Self.interval)
                if log.last == last { try await writer.write(Self.bytes(": \n\n")) }
            }
        }
    }

    /// Whether the reader shows questions to a person. A program says so by naming the type.
    private var isAnswerer: Bool { kinds.contains(.ask) && mayRead(.ask) }

    private func mayRead(_ kind: EventLog.Event.Kind) -> Bool {
        guard case .token(let token) = principal else { return true }
        return kind != .ask || token.scopes.contains(.asks)
    }

    /// What the reader may read.
    private func visible(_ all: [EventLog.Event]) async throws -> [EventLog.Event] {
        let events = all.filter { ($0.kind == .reset || kinds.contains($0.kind)) && mayRead($0.kind) }
        guard case .token(let token) = principal, !events.isEmpty else { return events }
        let own = try await local.submitted(by: principal.id)
        return events.filter { event in
            switch event.kind {
            case .ask: true
            case .command: event.command.map(own.contains) ?? false || token.scopes.contains(.commands) && principal.sees(event.device)
            case .device: token.scopes.contains(.devices) && principal.sees(event.device)
            case .transfer:
                token.scopes.contains(.share) && event.principal == principal.id && principal.sees(event.device)
            case .reset: true
            }
        }
    }

    private func text(_ kind: EventLog.Event.Kind, _ sequence: Int64, _ json: String) -> ByteBuffer {
        Self.bytes("id: \(instance):\(sequence)\nevent: \(kind.rawValue)\ndata: \(json)\n\n")
    }

    private static func bytes(_ text: String) -> ByteBuffer { ByteBuffer(string: text) }
}

/// One of the streams that may be open.
private final class StreamSlot: Sendable {
    private let bounds: APIBounds
    private let principal: Principal

    init(_ bounds: APIBounds, _ principal: Principal) throws {
        try bounds.beginStream(principal)
        (self.bounds, self.principal) = (bounds, principal)
    }

    deinit { bounds.streamEnded(principal) }
}

/// Writes what happens to the account's devices and commands to the log of events.
struct EventSource: Sendable {
    let local: LocalDevice
    let board: AskBoard
    let log: EventLog

    /// Runs until the task is cancelled.
    func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask { await devices() }
            group.addTask { await asks() }
            for account in local.accounts { group.addTask { await commands(account) } }
        }
    }

    private func devices() async {
        try? await Watch.events(of: local) { event in
            guard let json = try? event.json() else { return }
            log.add(.device, device: event.device?.id ?? event.endpoint?.device, command: nil, json: DisplayText.escaped(json: json))
        }
    }

    private struct AskNews: Encodable {
        var sequence: Int
    }

    private func asks() async {
        var seen = board.changes
        while !Task.isCancelled {
            await board.wait(after: seen)
            guard board.changes != seen else { continue }
            seen = board.changes
            // Which questions a reader may see is decided where it reads them.
            guard let json = try? JSONText.line(AskNews(sequence: seen)) else { continue }
            log.add(.ask, device: nil, command: nil, json: DisplayText.escaped(json: json))
        }
    }

    private func commands(_ account: ConnectedDevicesAccount) async {
        guard var last = try? await local.platform.lastCommandChange(for: account) else { return }
        while !Task.isCancelled {
            do {
                let next = try await local.platform.commandChanges(for: account, after: last)
                if next.hasGap {
                    log.add(.reset, device: nil, command: nil, json: "{}")
                    last = try await local.platform.lastCommandChange(for: account)
                }
                guard let newest = next.changes.last else { continue }
                last = newest.sequence
                // An event has the present state, so several changes of one command are one event.
                for id in Set(next.changes.map(\.id)) {
                    guard let entry = try await CommandList.entry(id, on: local), let json = try? JSONText.line(entry) else { continue }
                    log.add(
                        .command,
                        device: local.device(ofEndpoint: entry.endpoint),
                        command: entry.id,
                        json: DisplayText.escaped(json: json)
                    )
                }
            } catch {
                // The storage works again later. A cancelled task ends the loop.
                try? await Task.sleep(for: .seconds(1))
            }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol

/// Lists what waits for a person at this device.
package struct AskList: AgentOnlyCommand {
    /// Waits for another list than the one with this sequence; `nil` for no wait.
    var after: Int?

    package init() {}

    package struct Result: AgentResult, Codable {
        package var asks: [Ask]
        /// Grows with each change.
        package var sequence: Int

        package var notes: [String] { asks.isEmpty ? ["nothing waits for an answer"] : [] }

        package func lines(_ style: Style) -> [String] {
            guard !asks.isEmpty else { return [] }
            var table = Table("QUESTION", "FROM", "WHAT", "ENDS", "ID")
            for ask in asks {
                table.add(
                    .init(ask.kind.words),
                    .init(
                        name: DisplayText.sanitized(ask.device.name),
                        note: ask.device.new ? " (new)" : ask.device.paired ? " (paired)" : "",
                        .strong
                    ),
                    .init(name: ask.what),
                    .init(ask.expires.map(LocalTime.text) ?? "-"),
                    .init(name: ask.id)
                )
            }
            return table.lines(style)
        }
    }

    package func request() -> APIRequest {
        var request = APIRequest(.get, "asks", query: after.map { [("after", "\($0)")] } ?? [])
        if after != nil { request.wait = .seconds(60) }
        return request
    }

    package func isFinal(_ result: Result) -> Bool { result.sequence != after }
    package func waitingText(_ result: Result) -> String { "waiting for a question" }

    /// Prints each list from now on, until the task is cancelled or the agent ends.
    package func follow(_ context: AgentContext) async throws {
        var next = self
        next.after = -1
        while !Task.isCancelled {
            let result = try await next.run(context)
            if result.sequence != next.after { try context.console.print(result) }
            next.after = result.sequence
        }
    }
}

extension Ask.Kind {
    var words: String {
        switch self {
        case .launch: "open a link"
        case .localPage: "open a local page"
        case .transfer: "take files"
        case .newDevice: "new device"
        }
    }
}

extension Ask {
    /// What is asked about, as one text.
    fileprivate var what: String {
        switch kind {
        case .launch, .localPage: DisplayText.sanitized(uri ?? "") + programs
        case .transfer: "\(DisplayText.sanitized(name ?? "")) (\(count ?? 0), \(ByteCount.text(size ?? 0)))"
        case .newDevice: "relay approve \(id)"
        }
    }

    /// The programs that can open it. The ids are for a choice.
    private var programs: String {
        let handlers = handlers ?? []
        guard handlers.count > 1 else { return handlers.first.map { " with \(DisplayText.sanitized($0.name))" } ?? "" }
        return " with " + handlers.map { DisplayText.sanitized("\($0.name) [\($0.id)]") }.joined(separator: " or ")
    }
}

/// Answers a question.
package struct AskReply: AgentOnlyCommand {
    package enum Word: String, Codable, CaseIterable, Sendable {
        case once, always, no
    }

    var id: String
    var word: Word
    /// The id of the program that opens the link; `nil` for the first one of the question.
    var handler: String?

    package init(id: String, word: Word, handler: String? = nil) { (self.id, self.word, self.handler) = (id, word, handler) }

    package struct Result: AgentResult, Codable {
        package var ask: String
        package var answer: String

        package func lines(_ style: Style) -> [String] { ["answered: \(answer)"] }
    }

    private struct Body: Encodable {
        var answer: Word
        var handler: String?
    }

    package func request() throws -> APIRequest { try APIRequest(.post, "asks", id).with(body: Body(answer: word, handler: handler)) }
}

/// Lists what devices may do here without a question.
package struct GrantList: AgentOnlyCommand {
    package init() {}

    package struct Result: AgentResult, Codable {
        package var grants: [Grant]

        package var notes: [String] { grants.isEmpty ? ["no device may do anything here without a question"] : [] }

        package func lines(_ style: Style) -> [String] {
            guard !grants.isEmpty else { return [] }
            var table = Table("MAY", "DEVICE", "UNTIL", "FROM", "USES", "ID")
            for grant in grants {
                table.add(
                    .init(grant.words, .strong),
                    .init(grant.device.map { String($0.prefix(8)) } ?? "known devices"),
                    .init(grant.until.map(LocalTime.text) ?? "-"),
                    .init(grant.source.rawValue),
                    .init(grant.source == .settings ? "-" : "\(grant.uses)"),
                    .init(grant.source == .settings ? "-" : grant.id)
                )
            }
            return table.lines(style)
        }
    }

    package func request() -> APIRequest { APIRequest(.get, "grants") }
}

extension Grant {
    fileprivate var words: String { subject.words + (handler.map { " with \(DisplayText.sanitized($0.name))" } ?? "") }
}

extension Grant.Subject {
    var words: String {
        switch self {
        case .scheme(let scheme): "open \(DisplayText.sanitized(scheme)): links"
        case .service(let name): "call \(DisplayText.sanitized(name))"
        case .folder(let name): "read the folder \(DisplayText.sanitized(name))"
        case .transfer: "send files, links and texts"
        }
    }
}

/// Answers a question of the settings from now on.
package struct GrantAdd: AgentOnlyCommand {
    /// `nil` for all known devices.
    var device: String?
    /// `nil` for transfers.
    var scheme: String?
    /// `nil` for 90 days.
    var life: Duration?

    package init(device: String?, scheme: String?, life: Duration?) { (self.device, self.scheme, self.life) = (device, scheme, life) }

    package struct Result: AgentResult, Codable {
        package var grant: Grant

        package func lines(_ style: Style) -> [String] {
            let end = grant.until.map { ", until \(LocalTime.text($0))" } ?? ""
            return ["\(grant.device.map { String($0.prefix(8)) } ?? "known devices") may \(grant.words)\(end)"]
        }
    }

    private struct Body: Encodable {
        var device: String?
        var known: Bool?
        var scheme: String?
        var transfer: Bool?
        var until: String?
    }

    package func request() throws -> APIRequest {
        try APIRequest(.post, "grants").with(
            body: Body(
                device: device,
                known: device == nil ? true : nil,
                scheme: scheme,
                transfer: scheme == nil ? true : nil,
                until: life.map { (Date.now + $0 / .seconds(1)).formatted(.iso8601) }
            )
        )
    }
}

/// Takes a grant back.
package struct GrantRemove: AgentOnlyCommand {
    var id: String

    package init(id: String) { self.id = id }

    package struct Result: AgentResult, Codable {
        package var removed: String

        package func lines(_ style: Style) -> [String] { ["removed the grant; the device is asked about again"] }
    }

    package func request() -> APIRequest { APIRequest(.delete, "grants", id) }
}

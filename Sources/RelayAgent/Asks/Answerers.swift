// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// Asks the person at this device: in the console and through the API, at the terminal, and on the desktop.
struct Answerers: Sendable {
    var board = AskBoard()
    /// What the person has answered for good; `nil` where nothing is kept.
    var grants: GrantBook?
    /// The terminal for questions; `nil` if it must not be used.
    var terminal: TerminalQuestion?
    /// `nil` if the desktop is not asked.
    var desktop: DesktopNotifier?

    /// A question, as each answerer shows it.
    struct Question: Sendable {
        var ask: Ask
        var subject: Grant.Subject
        /// For the terminal. The desktop shows the same.
        var lines: [String]
        /// The programs of the question; the first one is the default.
        var handlers: [LinkHandler] = []
        var terminal: String
        /// The title on the desktop, and the button that says yes.
        var title: String
        var yes: DesktopNotifier.Action
        var patience: Duration
    }

    /// - Parameters:
    ///   - caller: Whom a grant would be for.
    ///   - program: Asks in the place of terminal and desktop; `nil` for none.
    func reply(
        to question: Question,
        of caller: AppServiceCaller,
        program: (@Sendable () async -> AskBoard.Reply)? = nil
    ) async -> AskBoard.Reply {
        let ids = question.handlers.map(\.id)
        if let answer = await grants?.answer(to: question.subject, of: caller, handlers: ids) { return .answer(answer) }
        var others: [@Sendable () async -> AskBoard.Reply] = []
        if let program {
            others = [program]
        } else {
            if let terminal, TerminalQuestion.isPossible { others.append { await ask(terminal, question) } }
            if let desktop, desktop.isPossible { others.append { await ask(desktop, question) } }
        }
        let reply = await board.reply(to: question.ask, within: question.patience, others: others)
        guard case .answer(.always(let until, let id)) = reply else { return reply }
        let handler = question.handlers.first { $0.id == id } ?? question.handlers.first
        // Without the grant the answer still holds for this time.
        _ = try? await grants?.add(question.subject, device: "\(caller.systemID)", until: until, source: .ask, handler: handler)
        return reply
    }

    private func ask(_ terminal: TerminalQuestion, _ question: Question) async -> AskBoard.Reply {
        switch await terminal.ask(question.lines, question.terminal, within: question.patience) {
        case true?: .answer(.once())
        case false?: .answer(.no)
        case nil: .none
        }
    }

    private func ask(_ desktop: DesktopNotifier, _ question: Question) async -> AskBoard.Reply {
        let body = question.lines.joined(separator: "\n")
        switch await desktop.show(question.title, body, actions: [question.yes, .decline], within: question.patience) {
        case .action(.decline): return .answer(.no)
        case .action: return .answer(.once())
        case .none: return .none
        case .unavailable: return .impossible
        }
    }
}

extension Ask {
    /// - Parameter canAlways: Whether a known device could be allowed it from now on.
    init(_ kind: Kind, from caller: AppServiceCaller, within patience: Duration, canAlways: Bool) {
        let isKnown = !caller.isNew && !caller.isPaired && !caller.isStranger
        self.init(
            id: TypedID.make(),
            kind: kind,
            device: Device(
                id: "\(caller.systemID)",
                endpoint: "\(caller.endpoint)",
                name: DisplayText.sanitized(caller.deviceName),
                new: caller.isNew,
                unverified: false,
                paired: caller.isPaired || caller.isStranger
            ),
            expires: .now + patience / .seconds(1),
            canAlways: isKnown && canAlways
        )
    }

    /// A device that waits for approval.
    init(_ endpoint: NewEndpoint) {
        self.init(
            id: "\(endpoint.id)",
            kind: .newDevice,
            device: Device(
                id: "\(endpoint.systemID)",
                endpoint: "\(endpoint.id)",
                name: DisplayText.sanitized(endpoint.deviceName),
                new: true,
                unverified: false,
                paired: false
            ),
            canAlways: false
        )
    }
}

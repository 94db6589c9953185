// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import Testing

@testable import DeviceRelay
@testable import RelayAgent

/// Questions that several can answer, and grants that answer them.
@Suite(.timeLimit(.minutes(5))) struct AskTests {
    private static func caller(isNew: Bool = false, name: String = "Phone") -> AppServiceCaller {
        AppServiceCaller(
            accountID: "me",
            deviceName: name,
            systemID: RemoteSystem.ID(SystemID(digest: Digest256(hashing: Array(name.utf8)))),
            endpoint: EndpointID(digest: Digest256(hashing: Array("key of \(name)".utf8))),
            appID: nil,
            isNew: isNew
        )
    }

    private func ask(_ kind: Ask.Kind = .launch) -> Ask { Ask(kind, from: Self.caller(), within: .seconds(25), canAlways: true) }

    private static let never: @Sendable () async -> AskBoard.Reply = {
        try? await Task.sleep(for: .seconds(3_600))
        return .none
    }

    private func reply(_ board: AskBoard, _ ask: Ask, _ others: [@Sendable () async -> AskBoard.Reply] = []) async -> AskBoard.Reply {
        await board.reply(to: ask, within: .seconds(60), others: others)
    }

    private func posted(_ board: AskBoard) async {
        while board.open.isEmpty { await board.wait(after: board.changes, within: .milliseconds(50)) }
    }

    @Test func nobodyCanBeAsked() async {
        #expect(await reply(AskBoard(), ask()) == .impossible)
        #expect(await reply(AskBoard(), ask(), [{ .impossible }]) == .impossible)
        #expect(await reply(AskBoard(), ask(), [{ .none }, { .impossible }]) == .none, "somebody was asked")
    }

    @Test func firstAnswerCounts() async {
        let board = AskBoard()
        let ask = ask()
        async let reply = reply(board, ask, [Self.never])
        await posted(board)
        #expect(board.open == [ask])
        #expect(board.take(.once(), for: ask.id) == .taken)
        #expect(board.take(.no, for: ask.id) == .answered)
        #expect(await reply == .answer(.once()))
        #expect(board.open.isEmpty)
        #expect(board.take(.no, for: "another") == .unknown)
    }

    /// The terminal or the desktop is first: the API is late.
    @Test func answerElsewhereEndsTheQuestion() async {
        let board = AskBoard()
        board.readerCame()
        let ask = ask()
        #expect(await reply(board, ask, [Self.never, { .answer(.no) }]) == .answer(.no))
        #expect(board.take(.once(), for: ask.id) == .answered)
    }

    /// A desktop without notifications does not end the question for the others.
    @Test func oneWhoCannotAnswerEndsNothing() async {
        let board = AskBoard()
        board.readerCame()
        let ask = ask()
        async let reply = reply(board, ask, [{ .impossible }])
        await posted(board)
        #expect(board.take(.once(), for: ask.id) == .taken)
        #expect(await reply == .answer(.once()))
    }

    @Test func questionIsOverInTime() async {
        let board = AskBoard()
        let ask = ask()
        #expect(await board.reply(to: ask, within: .milliseconds(20), others: [Self.never]) == .none)
        #expect(board.take(.once(), for: ask.id) == .over)
    }

    @Test func cancelledQuestionIsOver() async {
        let board = AskBoard()
        board.readerCame()
        let ask = ask()
        let task = Task { await reply(board, ask) }
        await posted(board)
        task.cancel()
        #expect(await task.value == .none)
        #expect(board.take(.once(), for: ask.id) == .over)
    }

    /// Many questions, each answered from several sides at once: each has exactly one answer.
    @Test func everyQuestionHasOneAnswer() async {
        let board = AskBoard()
        board.readerCame()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<100 {
                group.addTask {
                    let ask = self.ask()
                    async let reply = self.reply(board, ask, [Self.never])
                    while !board.open.contains(where: { $0.id == ask.id }) { await Task.yield() }
                    let taken = await withTaskGroup(of: AskBoard.Outcome.self) { answers in
                        for answer in [AskAnswer.once(), .no, .once()] { answers.addTask { board.take(answer, for: ask.id) } }
                        return await answers.reduce(into: []) { $0.append($1) }
                    }
                    #expect(taken.count { $0 == .taken } == 1)
                    #expect(taken.count { $0 == .answered } == 2)
                    if case .answer = await reply {} else { Issue.record("there is no answer") }
                }
            }
        }
        #expect(board.open.isEmpty)
    }

    // MARK: Grants

    private func book(_ change: (inout AgentConfiguration) -> Void) throws -> GrantBook {
        let folder = FileManager.default.temporaryDirectory.appending(path: "grants-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let book = GrantBook(try AgentStore(Home(folder)))
        var configuration = AgentConfiguration()
        change(&configuration)
        book.use(configuration)
        return book
    }

    private let later = Date.now + 3_600

    @Test func grantAnswersWhatTheSettingsAsk() async throws {
        let book = try book { $0.open.ask = ["x-ask"] }
        let phone = Self.caller()
        #expect(await book.answer(to: .scheme("x-ask"), of: phone) == nil)
        let grant = try await book.add(.scheme("x-ask"), device: "\(phone.systemID)", until: later, source: .ask)
        #expect(await book.answer(to: .scheme("x-ask"), of: phone) != nil)
        #expect(await book.answer(to: .scheme("x-ask"), of: Self.caller(isNew: true)) == nil, "new again, with the same name and keys")
        #expect(await book.answer(to: .scheme("x-ask"), of: Self.caller(name: "TV")) == nil)
        #expect(await book.answer(to: .transfer, of: phone) == nil)
        let listed = try #require(try await book.all().first { $0.id == grant.id })
        #expect(listed.uses == 1 && listed.lastUse != nil && listed.source == .ask)
        // The settings have the last word.
        var forbidding = AgentConfiguration()
        forbidding.open.others = .nothing
        book.use(forbidding)
        #expect(await book.answer(to: .scheme("x-ask"), of: phone) == nil)
        try await book.remove(grant.id)
        await #expect(throws: AgentError.self) { try await book.remove(grant.id) }
    }

    @Test func grantForAllKnownDevices() async throws {
        let book = try book { $0.receive.accept = .ask }
        _ = try await book.add(.transfer, device: nil, until: later, source: .command)
        #expect(await book.answer(to: .transfer, of: Self.caller()) != nil)
        #expect(await book.answer(to: .transfer, of: Self.caller(isNew: true)) == nil)
    }

    /// What the settings allow or forbid without a question has no stored grant.
    @Test func settingsComeFirst() async throws {
        let book = try book {
            $0.open.schemes = ["https"]
            $0.open.ask = ["x-ask"]
            $0.open.others = .nothing
        }
        for subject in [Grant.Subject.scheme("https"), .scheme("mailto"), .transfer, .service("files"), .folder("Photos")] {
            await #expect(throws: AgentError.self, "\(subject)") {
                _ = try await book.add(subject, device: nil, until: later, source: .command)
            }
        }
        let all = try await book.all()
        #expect(all.contains { $0.subject == .scheme("https") && $0.source == .settings })
        #expect(all.contains { $0.subject == .transfer && $0.source == .settings })
        for grant in all { await #expect(throws: AgentError.self) { try await book.remove(grant.id) } }
    }

    /// Schemes that the settings do not name have grants if they may be asked about, and no others have.
    @Test func schemesOfInstalledPrograms() async throws {
        let book = try book { $0.open.schemes = ["mailto"] }
        for scheme in ["http", "https", "file", "javascript", "ssh", "mailto", "X-Upper", "no scheme", ""] {
            await #expect(throws: AgentError.self, "\(scheme)") {
                _ = try await book.add(.scheme(scheme), device: nil, until: later, source: .command)
            }
        }
        #expect(try await book.add(.scheme("magnet"), device: nil, until: later, source: .command).handler == nil)
    }

    /// A grant is for the program that the person has chosen. Without it there is a question again.
    @Test func grantIsForAProgram() async throws {
        let book = try book { _ in }
        let phone = Self.caller()
        let chosen = LinkHandler(id: "b.desktop", name: "B")
        _ = try await book.add(.scheme("x-a"), device: "\(phone.systemID)", until: later, source: .ask, handler: chosen)
        #expect(await book.answer(to: .scheme("x-a"), of: phone, handlers: ["a.desktop", "b.desktop"]) == .once(handler: "b.desktop"))
        for handlers in [[], ["a.desktop"], ["B.desktop", "b.desktop\u{301}"]] {
            #expect(await book.answer(to: .scheme("x-a"), of: phone, handlers: handlers) == nil, "\(handlers)")
        }
        #expect(try await book.all().first { $0.source == .ask }?.handler == chosen)
        // One for all known devices leaves the choice to the system.
        _ = try await book.add(.scheme("x-a"), device: nil, until: later, source: .command)
        #expect(await book.answer(to: .scheme("x-a"), of: phone, handlers: ["a.desktop"]) == .once(handler: nil))
        #expect(await book.answer(to: .scheme("x-a"), of: phone, handlers: ["b.desktop"]) == .once(handler: "b.desktop"))
    }

    @Test(arguments: [-1.0, 0, 91 * 86_400, .infinity]) func lifeIsBounded(seconds: Double) async throws {
        let book = try book { $0.open.ask = ["x-ask"] }
        await #expect(throws: AgentError.self) {
            _ = try await book.add(.scheme("x-ask"), device: nil, until: .now + seconds, source: .command)
        }
    }

    /// A second grant for the same takes the place of the first, so nothing piles up.
    @Test func grantsReplaceEachOther() async throws {
        let book = try book { $0.open.ask = ["x-ask"] }
        for device in [nil, "a", nil, "a", "b"] as [String?] {
            _ = try await book.add(.scheme("x-ask"), device: device, until: later, source: .command)
        }
        #expect(try await book.all().filter { $0.source != .settings }.map(\.device) == [nil, "a", "b"])
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import Synchronization

/// What devices may do here without a question: what the settings allow, and what the person has answered. A stored grant answers a
/// question of the settings in the person's place. It allows nothing that the settings do not ask about.
final class GrantBook: Sendable {
    /// The longest life of a stored grant.
    static let longestLife: TimeInterval = 90 * 86_400
    static let maximum = 1_000

    private struct Rules {
        var allowed: [Grant] = []
        /// The schemes that are opened after a question.
        var asked: Set<String> = []
        /// Whether other schemes are asked about, too, except `opened`.
        var asksAboutOthers = false
        var opened: Set<String> = []
        var asksAboutTransfers = false
    }

    private let rules = Mutex(Rules())
    private let store: AgentStore

    init(_ store: AgentStore) { self.store = store }

    /// Takes the settings, at the start and after each change.
    func use(_ configuration: AgentConfiguration) {
        var rules = Rules(
            asked: Set(configuration.open.ask),
            asksAboutOthers: configuration.open.others == .ask,
            opened: Set(configuration.open.schemes),
            asksAboutTransfers: configuration.receive.accept == .ask
        )
        func allow(_ subject: Grant.Subject, _ devices: Set<RemoteSystem.ID>? = nil) {
            let all = devices?.map { "\($0)" }.sorted().map(Optional.some) ?? [nil]
            for device in all {
                let id = "settings-\(rules.allowed.count + 1)"
                rules.allowed.append(Grant(id: id, device: device, subject: subject, source: .settings))
            }
        }
        for scheme in configuration.open.schemes { allow(.scheme(scheme)) }
        for (name, service) in configuration.services.sorted(by: { $0.key < $1.key }) { allow(.service(name), service.devices) }
        if let files = configuration.files { allow(.folder(URL(filePath: files.folder).lastPathComponent), files.devices) }
        if configuration.receive.accept == .known { allow(.transfer) }
        self.rules.withLock { $0 = rules }
    }

    /// The answer of a stored grant to the question about a use, which is counted then; `nil` if there is none.
    /// - Parameters:
    ///   - caller: A device that is new or another person's has none.
    ///   - handlers: The ids of the programs of the question. A grant for another program, as one that was removed, does not count.
    func answer(to subject: Grant.Subject, of caller: AppServiceCaller, handlers: [String] = []) async -> AskAnswer? {
        guard !caller.isNew, !caller.isPaired, !caller.isStranger, isAsked(subject) else { return nil }
        return try? await store.useGrant(subject, device: "\(caller.systemID)", handlers: handlers)
    }

    /// Whether the settings ask about something.
    func isAsked(_ subject: Grant.Subject) -> Bool {
        rules.withLock { rules in
            switch subject {
            case .scheme(let scheme):
                rules.asked.contains(scheme)
                    || rules.asksAboutOthers && !rules.opened.contains(scheme) && LaunchURI.isScheme(scheme)
                        && HandlerRules.mayOffer(scheme)
            case .transfer: rules.asksAboutTransfers
            case .service, .folder: false
            }
        }
    }

    /// All grants: those of the settings first.
    func all() async throws -> [Grant] { rules.withLock { $0.allowed } + (try await store.grants()) }

    /// Stores a grant.
    /// - Parameters:
    ///   - device: The id of a known device; `nil` for all of them.
    ///   - until: At most `longestLife` from now.
    ///   - handler: The program that opens the links; `nil` for the default at each time.
    /// - Throws: `AgentError` that says what the settings have to say first.
    func add(
        _ subject: Grant.Subject,
        device: String?,
        until: Date,
        source: Grant.Source,
        handler: LinkHandler? = nil
    ) async throws -> Grant {
        guard isAsked(subject) else { throw Self.notAsked(subject) }
        try Self.check(until)
        let id = TypedID.make()
        let grant = Grant(id: id, device: device, subject: subject, until: until, source: source, handler: handler)
        try await store.add(grant)
        return grant
    }

    /// - Throws: `AgentError` if a grant cannot end then.
    static func check(_ until: Date) throws {
        let left = until.timeIntervalSinceNow
        // A minute for clocks that differ.
        guard left > 0, left <= longestLife + 60 else {
            throw AgentError("untilInvalid", "a grant ends within 90 days from now", .usage)
        }
    }

    /// - Throws: `AgentError`: `notFound`, `settingsOnly`.
    func remove(_ id: String) async throws {
        guard !rules.withLock({ $0.allowed.contains { $0.id == id } }) else {
            throw AgentError("settingsOnly", "this is in agent.yaml, and is changed there", .usage)
        }
        guard try await store.removeGrant(id) else {
            throw AgentError("notFound", "there is no such grant: relay grants list", .notFound)
        }
    }

    private static func notAsked(_ subject: Grant.Subject) -> AgentError {
        let what =
            switch subject {
            case .scheme(let scheme):
                "the settings ask nothing about \(DisplayText.sanitized(scheme)): links; name it in `open: {ask: […]}` in agent.yaml"
            case .transfer: "the settings ask nothing about transfers; set `receive: {accept: ask}` in agent.yaml"
            case .service: "who may call a service is in the settings alone: `services` in agent.yaml"
            case .folder: "who may read the folder is in the settings alone: `files` in agent.yaml"
            }
        return AgentError("notAsked", what, .usage)
    }
}

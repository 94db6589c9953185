// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol
import Subprocess

/// Decides on launches: opens a URI, asks the user first, or declines it.
struct LaunchPolicy: Sendable {
    /// The time limit of a question. A handler has 30 s, and the next launch of the same sender waits until it ends.
    static let patience = Duration.seconds(25)

    let configuration: AgentConfiguration.Opening
    /// Whether new devices count as known.
    let trustsNewDevices: Bool
    let environment: ProgramEnvironment
    let running: RunningPrograms
    let counts: LaunchLimits
    let answerers: Answerers
    /// Finds the installed programs that open what is asked about; `nil` for none.
    var finder: HandlerFinder?

    func take(_ request: LaunchRequest) async -> LaunchAnswer {
        var handler: InstalledHandler?
        if let rejection = await rejection(of: request, choosing: &handler) { return .declined(why: "\(rejection)") }
        let isNew = isUntrusted(request.caller)
        if let rejection = counts.beginProgram(isNew: isNew, configuration) { return .declined(why: "\(rejection)") }
        return await URIOpener(command: configuration.command, environment: environment, handler: handler).open(request.uri) {
            counts.endProgram(isNew: isNew)
        }
    }

    /// - Parameter handler: Becomes the program that the person has chosen.
    private func rejection(of request: LaunchRequest, choosing handler: inout InstalledHandler?) async -> LaunchRejection? {
        let (uri, caller) = (request.uri, request.caller)
        let isNew = isUntrusted(caller)
        // The SDK counts the launches of new devices.
        if !isNew || caller.isPaired, let rejection = counts.admit(caller.systemID, configuration) { return rejection }
        guard !AgentConfiguration.Opening.neverOpened.contains(uri.scheme) else { return .neverOpened(scheme: uri.scheme) }
        let isLocalPage = isNew && !WebHost.isOnInternet(uri)
        guard isLocalPage || !configuration.schemes.contains(uri.scheme) else { return nil }
        let isOther = !configuration.schemes.contains(uri.scheme) && !configuration.ask.contains(uri.scheme)
        if isOther, isNew || configuration.others == .nothing || !HandlerRules.mayOffer(uri.scheme) {
            return .notOpened(scheme: uri.scheme)
        }
        // The configured program opens what the settings name.
        let handlers = isLocalPage || !isOther && configuration.command != nil ? [] : finder?.installed().handlers(for: uri.scheme) ?? []
        if isOther, handlers.isEmpty { return .noProgram(scheme: uri.scheme) }
        var chosen: InstalledHandler?
        let rejection = await counts.whileAsking(isNew: isNew) {
            switch await answer(about: request, isLocalPage: isLocalPage, handlers.map(\.link)) {
            case .success(let id):
                chosen = handlers.first { $0.link.id == id } ?? handlers.first
                return nil
            case .failure(let rejection): return rejection
            }
        }
        handler = chosen
        if case .noUserPresent = rejection, isLocalPage { return .localPage(for: caller.endpoint) }
        return request.isCancelled ? .cancelled : rejection
    }

    /// Devices of other people have the bounds of new ones.
    private func isUntrusted(_ caller: AppServiceCaller) -> Bool { caller.isPaired || caller.isNew && !trustsNewDevices }

    /// Asks a person.
    /// - Returns: The id of the chosen program; `nil` for the first one, or if there is none.
    private func answer(
        about request: LaunchRequest,
        isLocalPage: Bool,
        _ handlers: [LinkHandler]
    ) async -> Result<String?, LaunchRejection> {
        var ask = Ask(isLocalPage ? .localPage : .launch, from: request.caller, within: Self.patience, canAlways: !isLocalPage)
        ask.uri = request.uri.text
        ask.handlers = handlers.isEmpty ? nil : handlers
        let question = Answerers.Question(
            ask: ask,
            subject: .scheme(request.uri.scheme),
            lines: LaunchQuestion.lines(request.uri, request.caller, handlers),
            handlers: handlers,
            terminal: "Open it? [y/N]",
            title: "Open a link?",
            yes: .open,
            patience: Self.patience
        )
        let program = configuration.prompt.map { prompt in { @Sendable in await answer(of: prompt, request, handlers.first) } }
        return switch await answerers.reply(to: question, of: request.caller, program: program) {
        case .answer(.once(let id)), .answer(.always(_, let id)): .success(id)
        case .answer(.no): .failure(.declined)
        case .none: .failure(.noAnswer)
        case .impossible: .failure(program == nil ? .noUserPresent(scheme: request.uri.scheme) : .cannotAsk)
        }
    }

    private func answer(of prompt: Program, _ request: LaunchRequest, _ handler: LinkHandler?) async -> AskBoard.Reply {
        let caller = request.caller
        let ask = { @Sendable () async throws -> TerminationStatus? in
            try await running.run { mark in
                let program = URIOpener.program(prompt, with: request.uri).configuration(
                    environment.variables(
                        forDesktop: true,
                        adding: [
                            "DEVICE_RELAY_URI": request.uri.text,
                            "DEVICE_RELAY_DEVICE": "\(caller.systemID)",
                            "DEVICE_RELAY_DEVICE_NAME": DisplayText.sanitized(caller.deviceName),
                            "DEVICE_RELAY_DEVICE_NEW": caller.isNew || caller.isPaired ? "1" : "0",
                            "DEVICE_RELAY_DEVICE_PAIRED": caller.isPaired ? "1" : "0",
                            "DEVICE_RELAY_HANDLER": handler?.name ?? "",
                        ],
                        mark
                    )
                )
                return try await Subprocess.run(program, input: .none, output: .discarded, error: .discarded).terminationStatus
            }
        }
        do {
            guard let status = try await within(Self.patience, ask) else { return .none }
            return .answer(status.isSuccess ? .once() : .no)
        } catch {
            // A question that somebody else has answered is over.
            return Task.isCancelled ? .none : .impossible
        }
    }
}

/// The outcome of a launch.
enum LaunchAnswer: Sendable {
    case launched
    case declined(why: String)
    /// `said` is the program's error output. It may contain the URI: it goes to the sender and never into a log.
    case failed(why: String, said: String = "")
}

/// The text of the question. Each text of the other device stands in quotes on its own line.
enum LaunchQuestion {
    /// The longest part of a URI that the question shows.
    private static let maximumBytes = 400

    /// - Parameter handlers: The installed programs; the first one opens it.
    static func lines(_ uri: LaunchURI, _ caller: AppServiceCaller, _ handlers: [LinkHandler] = []) -> [String] {
        [
            "A launch asks to be opened here.",
            "  from  \(DisplayText.quoted(caller.deviceName)), \(kind(of: caller)), \(caller.systemID.label)",
            "  URI   \(shown(uri))",
        ] + (handlers.first.map { ["  with  \(DisplayText.quoted($0.name))\(others(handlers.count - 1))"] } ?? [])
    }

    private static func others(_ count: Int) -> String {
        count == 0 ? "" : "; \(count) more: relay asks answer --handler"
    }

    private static func kind(of caller: AppServiceCaller) -> String {
        if caller.isPaired { return "a paired device of another person" }
        return caller.isNew ? "a NEW device that is not approved" : "a known device"
    }

    /// The URI, cut to `maximumBytes`. It needs no quoting: a URI contains neither quotes nor spaces.
    private static func shown(_ uri: LaunchURI) -> String {
        let bytes = Array(uri.text.utf8)
        guard bytes.count > maximumBytes else { return "\"\(uri.text)\"" }
        return "\"\(String(decoding: bytes.prefix(maximumBytes), as: UTF8.self))\", and \(bytes.count - maximumBytes) more characters"
    }
}

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

    func take(_ request: LaunchRequest) async -> LaunchAnswer {
        if let rejection = await rejection(of: request) { return .declined(why: "\(rejection)") }
        let isNew = isUntrusted(request.caller)
        if let rejection = counts.beginProgram(isNew: isNew, configuration) { return .declined(why: "\(rejection)") }
        return await URIOpener(command: configuration.command, environment: environment).open(request.uri) {
            counts.endProgram(isNew: isNew)
        }
    }

    private func rejection(of request: LaunchRequest) async -> LaunchRejection? {
        let (uri, caller) = (request.uri, request.caller)
        let isNew = isUntrusted(caller)
        // The SDK counts the launches of new devices.
        if !isNew || caller.isPaired, let rejection = counts.admit(caller.systemID, configuration) { return rejection }
        guard !AgentConfiguration.Opening.neverOpened.contains(uri.scheme) else { return .neverOpened(scheme: uri.scheme) }
        let isLocalPage = isNew && !WebHost.isOnInternet(uri)
        guard isLocalPage || !configuration.schemes.contains(uri.scheme) else { return nil }
        let rejection = await counts.whileAsking(isNew: isNew) { await answer(about: request, isLocalPage: isLocalPage) }
        if case .noUserPresent = rejection, isLocalPage { return .localPage(for: caller.endpoint) }
        return request.isCancelled ? .cancelled : rejection
    }

    /// Devices of other people have the bounds of new ones.
    private func isUntrusted(_ caller: AppServiceCaller) -> Bool { caller.isPaired || caller.isNew && !trustsNewDevices }

    /// Asks a person.
    private func answer(about request: LaunchRequest, isLocalPage: Bool) async -> LaunchRejection? {
        var ask = Ask(isLocalPage ? .localPage : .launch, from: request.caller, within: Self.patience, canAlways: !isLocalPage)
        ask.uri = request.uri.text
        let question = Answerers.Question(
            ask: ask,
            subject: .scheme(request.uri.scheme),
            lines: LaunchQuestion.lines(request.uri, request.caller),
            terminal: "Open it? [y/N]",
            title: "Open a link?",
            yes: .open,
            patience: Self.patience
        )
        let program = configuration.prompt.map { prompt in { @Sendable in await answer(of: prompt, request) } }
        return switch await answerers.reply(to: question, of: request.caller, program: program) {
        case .answer(.once), .answer(.always): nil
        case .answer(.no): .declined
        case .none: .noAnswer
        case .impossible: program == nil ? .noUserPresent(scheme: request.uri.scheme) : .cannotAsk
        }
    }

    private func answer(of prompt: Program, _ request: LaunchRequest) async -> AskBoard.Reply {
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
                        ],
                        mark
                    )
                )
                return try await Subprocess.run(program, input: .none, output: .discarded, error: .discarded).terminationStatus
            }
        }
        do {
            guard let status = try await within(Self.patience, ask) else { return .none }
            return .answer(status.isSuccess ? .once : .no)
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

    static func lines(_ uri: LaunchURI, _ caller: AppServiceCaller) -> [String] {
        [
            "A launch asks to be opened here.",
            "  from  \(DisplayText.quoted(caller.deviceName)), \(kind(of: caller)), \(caller.systemID.label)",
            "  URI   \(shown(uri))",
        ]
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

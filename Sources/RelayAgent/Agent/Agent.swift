// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// Makes this machine a device: opens URIs that other devices launch and answers their app service requests, until SIGINT or SIGTERM.
package struct Agent: Sendable {
    var configurationPath: String?
    var pollingInterval: Duration?

    /// - Parameters:
    ///   - configurationPath: The settings file; `nil` for `agent.yaml` in the home directory, which may be missing.
    ///   - pollingInterval: How often the agent connects to fetch what waits; `nil` for an agent that stays connected.
    package init(configurationPath: String?, pollingInterval: Duration? = nil) {
        self.configurationPath = configurationPath
        self.pollingInterval = pollingInterval
    }

    package struct Event: AgentResult {
        package enum Kind: String, Encodable, Sendable {
            case ready, reloaded, launch
        }

        package enum Answer: String, Encodable, Sendable {
            case launched, declined, failed
        }

        package var event: Kind
        package var app: String
        package var schemes: [String]?
        /// The schemes that open after a question.
        package var ask: [String]?
        package var services: [String]?
        /// The scheme of the launched URI. Only the program that opens the URI gets the URI itself.
        package var scheme: String?
        package var from: Host.Event.Caller?
        package var answer: Answer?
        package var reason: String?

        package func lines(_ style: Style) -> [String] {
            switch event {
            case .ready, .reloaded:
                let services = (services ?? []).joined(separator: ", ")
                let opens = (schemes ?? []).isEmpty ? "opens nothing" : "opens \((schemes ?? []).joined(separator: ", "))"
                let asks = ask.map { "; asks about \($0.joined(separator: ", "))" } ?? ""
                let hint = event == .ready ? "; it ends with Ctrl-C" : ""
                return ["\(event.rawValue): \(opens)\(asks); answers \(services)\(hint)"]
            case .launch:
                guard let scheme, let from, let answer else { return [] }
                let why = reason.map { " (\($0))" } ?? ""
                return ["\(scheme) from \(style.show(from.name, .strong))\(from.new ? " (new)" : ""): \(answer.rawValue)\(why)"]
            }
        }
    }

    /// Runs until SIGINT or SIGTERM.
    package func run(_ context: AgentContext) async throws {
        let file = ConfigurationFile(path: configurationPath, home: context.home)
        let configuration = try file.read()
        // A write to a program that has exited must not end the agent.
        signal(SIGPIPE, SIG_IGN)
        let reload = ReloadSignal()
        let output = HostOutput(console: context.console)
        for program in configuration.missingPrograms { context.console.note("\(program) is not there, or cannot be executed") }
        let store = Result { try AgentStore(context.home) }
        let grants = (try? store.get()).map { GrantBook($0) }
        let duties = AgentServices(
            output: output,
            running: RunningPrograms(),
            counts: LaunchLimits(),
            answerers: Answerers(
                grants: grants,
                terminal: context.console.isJSON ? nil : TerminalQuestion(console: context.console)
            ),
            store: try? store.get(),
            console: context.console,
            log: { context.console.log($0) },
            note: { context.console.note($0) }
        )
        grants?.use(configuration)
        if pollingInterval != nil, try !context.home.membership().hasRelay {
            throw AgentError("notSignedIn", "--poll asks a relay, and this device has none; run the agent without it", .notSignedIn)
        }
        let paired = duties.pairedRegistration(configuration)
        let app = try context.home.membership().hasRelay ? duties.registration(configuration) : paired
        do {
            try await context.host(app, paired: paired, output: output, reloads: true) {
                configuration.nearby.apply(to: &$0, environment: ProcessInfo.processInfo.environment)
            } _: { local in
                if let pollingInterval {
                    let registration = NotificationRegistration(type: .polling(every: pollingInterval), appID: app.appID)
                    try await local.platform.notifications.register(registration, for: local.account)
                    await local.platform.suspend()
                }
                let desktop = DesktopNotifier(environment: ProgramEnvironment(more: configuration.environment))
                let identities = IdentityWatch(local: local, desktop: desktop, note: duties.note)
                let newDevices = NewDeviceWatch(
                    local: local,
                    home: context.home,
                    desktop: desktop,
                    terminal: duties.answerers.terminal,
                    board: duties.answerers.board,
                    note: duties.note
                )
                try await withThrowingDiscardingTaskGroup { group in
                    let served = OneShot<Void>()
                    group.addTask {
                        await serve(context, configuration, local, duties.answerers, store) { served.settle(()) }
                        served.settle(())
                    }
                    _ = await served.wait()
                    try output.print(Self.event(.ready, configuration, app))
                    group.addTask { await newDevices.run() }
                    group.addTask { await identities.run() }
                    for await _ in reload.arrivals {
                        // A closed terminal sends SIGHUP too. In that case the agent ends.
                        if context.console.isInteractive, isatty(2) != 1 { raise(SIGTERM) }
                        await change(to: file, configuration, duties, local, output, context.console)
                    }
                }
            }
        } catch {
            await duties.running.ended()
            throw error
        }
        await duties.running.ended()
    }

    /// Serves the API until the task is cancelled. Without it the agent does everything else.
    /// - Parameter ready: Called once clients can connect.
    private func serve(
        _ context: AgentContext,
        _ configuration: AgentConfiguration,
        _ local: LocalDevice,
        _ answerers: Answerers,
        _ store: Result<AgentStore, any Error>,
        ready: @escaping @Sendable () -> Void
    ) async {
        do {
            let store = try store.get()
            let server = APIServer(
                home: context.home,
                settings: configuration.api,
                environment: ProcessInfo.processInfo.environment,
                version: context.version,
                store: store,
                board: answerers.board,
                grants: answerers.grants ?? GrantBook(store),
                isPolling: pollingInterval != nil
            )
            try await server.run(on: local, ready: ready)
        } catch {
            if !Task.isCancelled { context.console.note("the API is not served: \(AgentError(error).message)") }
        }
    }

    /// Applies the settings of a file. Invalid settings change nothing.
    /// - Parameter start: The settings of the start, of which some last.
    private func change(
        to file: ConfigurationFile,
        _ start: AgentConfiguration,
        _ duties: AgentServices,
        _ local: LocalDevice,
        _ output: HostOutput,
        _ console: Console
    ) async {
        do {
            let configuration = try file.read()
            for program in configuration.missingPrograms { console.note("\(program) is not there, or cannot be executed") }
            if configuration.nearby != start.nearby { console.note("`nearby` holds from the next start of the agent") }
            if configuration.api != start.api { console.note("`api` holds from the next start of the agent") }
            duties.answerers.grants?.use(configuration)
            let app = duties.registration(configuration)
            if local.account != .anonymous { try await local.platform.publish(app, for: local.account) }
            if local.accounts.contains(.anonymous) {
                try await local.platform.publish(duties.pairedRegistration(configuration), for: .anonymous)
            }
            try output.print(Self.event(.reloaded, configuration, app))
        } catch {
            if !Task.isCancelled { console.note("the settings are not changed: \(AgentError(error).message)") }
        }
    }

    private static func event(_ kind: Event.Kind, _ configuration: AgentConfiguration, _ app: RemoteSystemAppRegistration) -> Event {
        let schemes = configuration.open.schemes
        let ask = (app.launchHandler?.schemes ?? []).filter { !schemes.contains($0) }
        let services = app.services.map(\.name) + (app.sharing == nil ? [] : [ShareMessages.serviceName])
        return Event(event: kind, app: app.appID, schemes: schemes, ask: ask.isEmpty ? nil : ask, services: services)
    }
}

/// The parts of the agent that outlive a change of the settings.
struct AgentServices: Sendable {
    let output: HostOutput
    let running: RunningPrograms
    let counts: LaunchLimits
    let answerers: Answerers
    /// `nil` if it cannot be opened.
    var store: AgentStore?
    let console: Console
    /// Takes a line of a program.
    let log: @Sendable (String) -> Void
    /// Takes a line of the agent, which is translated.
    let note: @Sendable (String) -> Void

    func registration(_ configuration: AgentConfiguration) -> RemoteSystemAppRegistration {
        let environment = ProgramEnvironment(more: configuration.environment)
        var answerers = answerers
        answerers.desktop = DesktopNotifier(environment: environment)
        let finder = HandlerFinder.system
        let desk = LaunchPolicy(
            configuration: configuration.open,
            trustsNewDevices: configuration.newDevices == .everything,
            environment: environment,
            running: running,
            counts: counts,
            answerers: answerers,
            finder: finder
        )
        let files = configuration.files.map { FilesService(folder: SharedFolder(root: $0.folder), devices: $0.devices).service }
        let clipboard = Clipboard(environment: environment)
        let clipboards =
            configuration.clipboard != .nothing && clipboard.isThere
            ? [ClipboardService(clipboard: clipboard, access: configuration.clipboard).service] : []
        let receiving = Receiving(
            appID: AgentConfiguration.appID,
            folder: configuration.receive.folder,
            access: configuration.receive.accept,
            keepsNotes: true,
            answerers: answerers,
            console: console,
            // An error of the output ends the agent, but changes nothing about the transfer.
            report: { [store] reception in
                try? output.print(reception)
                let device = reception.from.device
                try? store?.auditNow("device:\(device)", "transfer", device: device, subject: nil, answer: reception.event.rawValue)
            },
            log: note
        )
        let programs = configuration.services.sorted { $0.key < $1.key }.map { name, service in
            ProgramService(name: name, configuration: service, environment: environment, running: running, log: log, note: note).service
        }
        var registration = RemoteSystemAppRegistration(
            appID: AgentConfiguration.appID,
            displayName: configuration.name,
            launchHandler: LaunchHandler(
                schemes: configuration.open.schemes + configuration.open.ask + others(configuration.open, finder),
                defaultFor: Set(configuration.open.schemes)
            ) { request in
                let answer = await desk.take(request)
                await record("launch", from: request.caller, subject: request.uri.scheme, answer: answer.audited)
                // An error of the output ends the agent, but changes nothing about the launch.
                try? output.print(event(request, answer))
                return switch answer {
                case .launched: .launched
                case .failed(let why, let said):
                    .failed(reason: said.isEmpty || request.caller.isNew || request.caller.isPaired ? why : said)
                case .declined(let why): .declined(reason: why)
                }
            },
            services: [PingService.service, EchoService.service] + (files.map { [$0] } ?? []) + clipboards + programs,
            sharing: receiving.handler,
            newCallers: configuration.newDevices
        )
        registration.newCallerBounds.launchesPerMinute = configuration.open.newLaunchesPerMinute
        // The policy asks a person about them.
        registration.newCallerBounds.decidesOnLocalPages = true
        return registration
    }

    /// The schemes that the settings do not name, and for which a program is installed: as many as an app may have.
    private func others(_ configuration: AgentConfiguration.Opening, _ finder: HandlerFinder?) -> [String] {
        guard configuration.others == .ask, let finder else { return [] }
        let named = Set(configuration.schemes + configuration.ask)
        let all = finder.installed().schemes.filter { HandlerRules.mayOffer($0) && !named.contains($0) }
        let room = max(0, Limits()[.schemesPerApp] - named.count)
        if all.count > room {
            note("programs are installed for \(all.count - room) more schemes than an app may open; name those in `open: {ask: […]}`")
        }
        return Array(all.prefix(room))
    }

    /// What paired devices of other people may ask for: files, links and texts, and web pages, each after a question. Services are for the
    /// account's devices.
    func pairedRegistration(_ configuration: AgentConfiguration) -> RemoteSystemAppRegistration {
        var asking = configuration
        asking.open.ask = ["http", "https"]
        asking.open.schemes = []
        asking.open.others = .nothing
        asking.receive.accept = configuration.receive.accept == .nothing ? .nothing : .ask
        var all = registration(asking)
        all.services = []
        return all
    }

    /// Writes what another device did here to the audit, if there is one.
    private func record(_ action: String, from caller: AppServiceCaller, subject: String?, answer: String) async {
        let device = "\(caller.systemID)"
        try? await store?.audit("device:\(device)", action, device: device, subject: subject, answer: answer)
    }

    private func event(_ request: LaunchRequest, _ answer: LaunchAnswer) -> Agent.Event {
        let reason: String? =
            switch answer {
            case .launched: nil
            case .failed(let why, _), .declined(let why): why
            }
        return Agent.Event(
            event: .launch,
            app: AgentConfiguration.appID,
            scheme: request.uri.scheme,
            from: Host.Event.Caller(request.caller),
            answer: answer.word,
            reason: reason
        )
    }
}

extension LaunchAnswer {
    fileprivate var word: Agent.Event.Answer {
        switch self {
        case .launched: .launched
        case .failed: .failed
        case .declined: .declined
        }
    }

    /// The word in the audit. A question without an answer is `unanswered`, not declined.
    fileprivate var audited: String {
        if case .declined(let why) = self, why == LaunchRejection.noAnswer.description { return "unanswered" }
        return "\(word)"
    }
}

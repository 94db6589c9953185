// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import GRDB
import RelayProtocol
import RelayTesting

/// A line of the ledger file.
private struct LedgerLine<Value: Encodable>: Encodable {
    var at: Int64
    var what: String
    var value: Value
}

/// Runs a plan: orders its commands, kills its parties, and records all reports in the ledger.
actor Drive {
    struct Failed: Error, CustomStringConvertible {
        var description: String
    }

    private struct Lane {
        var waiting: [Errand]
        /// The command that the sender was ordered to submit and has not answered. After a kill, the sender's storage decides
        /// whether it was submitted.
        var current: Errand?
        /// The number of submitted commands that have not ended.
        var open = 0
    }

    let plan: Plan
    private let window: Int
    private let patience: Duration
    let directory: URL
    private let pushService: PushService
    let relays: Relays
    private let relayID: RelayID
    private let file: FileHandle
    var ledger: Ledger

    /// The nodes that run.
    var up: Set<Int>
    var children: [Party: ChildProcess] = [:]
    /// The number of starts of each party.
    private var lives: [Party: Int] = [:]
    private var readers: [Party: Task<Void, Never>] = [:]
    /// The parties that have reported their state since their last start and accept orders.
    private var ready: Set<Party> = []
    private var endpoints: [Party: String] = [:]
    private var lanes: [Ledger.Lane: Lane] = [:]
    private var strikes: ArraySlice<Plan.Strike>
    private var copies: ArraySlice<Plan.Copy>
    private var cuts: ArraySlice<Plan.Cut>
    var mishaps: ArraySlice<Plan.Mishap>
    /// The nodes that stand still.
    var standing: Set<Int> = []
    /// Whether the standby is being promoted, or made anew.
    var isPromoting = false
    var lastProgress = ContinuousClock.now
    /// What the relay has had to recover from lately.
    var recoveries: [Recovery] = []
    private var approved: Set<Party> = []
    /// The senders whose state went back, until they have reported what they have.
    var goneBack: Set<Party> = []
    var strikesAtWork = 0
    var naps: ArraySlice<Plan.Nap>
    /// The targets that are about to sleep, and whether they will be frozen.
    var drowsy: [Party: Bool] = [:]
    var frozen: Set<Party> = []
    /// The processes of sleeping targets, until they end.
    var ending: [Party: ChildProcess] = [:]
    /// The parties whose next process starts when the previous one has ended.
    private var starting: Set<Party> = []
    private var progress = 0
    private var reports = 0
    private var lastReport = ContinuousClock.now
    private var hasBegun = false
    /// Commands that a sender found in its storage at its last start and whose end it has not reported.
    private var found: [Party: Set<String>] = [:]
    private var failure: Failed?

    /// - Parameters:
    ///   - window: The maximum number of open commands of one sender for one target.
    ///   - patience: How long a run may make no progress.
    ///   - directory: The directory of all storage, logs and the ledger.
    ///   - older: A relayd of an earlier version, with which all nodes start.
    init(_ plan: Plan, window: Int, patience: Duration, directory: URL, older: URL? = nil) async throws {
        self.plan = plan
        self.window = window
        self.patience = patience
        self.directory = directory
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        file = try Self.file(directory.appending(path: "ledger.jsonl"))
        ledger = Ledger(plan.issues)
        strikes = plan.strikes[...]
        copies = plan.copies[...]
        cuts = plan.cuts[...]
        mishaps = plan.mishaps[...]
        up = Set(0..<plan.nodes)
        naps = plan.naps[...]
        pushService = try await PushService()
        // High limits, so that the limits do not determine the pace.
        let limits = ["commandsPerSecond=10000", "mailboxCommandsPerSender=1000", "mailboxBytesPerSender=67108864"]
        let arguments = limits.flatMap { ["--limit", $0] } + pushService.relayArguments
        relays = try await Relays(plan.nodes, program: older, arguments: arguments) {
            try Self.file(directory.appending(path: $0))
        }
        try await relays.start(account: "Anna")
        let relayd = relays.nodes[0]
        let credential = directory.appending(path: "push-credential.json")
        try pushService.credential().write(to: credential)
        let credentialCommand = ["app", "credential", "fcm", "default", "--service-account", credential.path]
        let added = try await RelaydProcess.run(credentialCommand + ["--data-directory", relayd.directory.path])
        guard added.status == 0 else { throw Failed(description: added.error) }
        relayID = try JoinLink(parsing: try await relayd.run("invite", "Anna"), plainHTTP: .allowed).relay
        for sender in 0..<plan.senders {
            for target in 0..<plan.targets {
                let issues = plan.issues.filter { $0.sender == sender && $0.target == target }
                lanes[.init(sender: sender, target: target)] = Lane(waiting: issues)
            }
        }
    }

    /// Opens a file for appending.
    private static func file(_ url: URL) throws -> FileHandle {
        guard FileManager.default.fileExists(atPath: url.path) || FileManager.default.createFile(atPath: url.path, contents: nil) else {
            throw Failed(description: "\(url.path) cannot be made")
        }
        let handle = try FileHandle(forWritingTo: url)
        try handle.seekToEnd()
        return handle
    }

    /// Kills all remaining processes.
    func end() async {
        for child in children.values { child.kill() }
        for child in ending.values { child.kill() }
        try? await relays.kill()
    }

    /// - Returns: The duration of the run.
    func run() async throws -> Duration {
        // A party that joins later knows the earlier ones.
        for party in plan.parties where !party.isRelayd { try await start(party, joining: true) }
        if plan.hasPaths {
            for child in children.values { child.tell(.approve) }
            try await wait("for the devices to know each other") { $0.approved.count == $0.children.count }
        }
        let pushes = Task { for await push in pushService.pushes { self.deliver(push) } }
        defer { pushes.cancel() }
        let beginnings = Task { try await self.watchBeginnings() }
        defer { beginnings.cancel() }
        let begin = ContinuousClock.now
        lastReport = begin
        hasBegun = true
        for lane in lanes.keys.sorted() { pump(lane) }
        try await wait("for the end") { $0.isDone }
        let duration = ContinuousClock.now - begin

        // After another start, each sender must still know all outcomes.
        for sender in 0..<plan.senders {
            children.removeValue(forKey: .sender(sender))?.kill()
            try await start(.sender(sender), joining: false)
        }
        try await wait("for what the senders know") { $0.found.values.allSatisfy(\.isEmpty) }
        // The commands that a sender has lost wait at the relay, too.
        if !plan.copies.isEmpty { for target in 0..<plan.targets { wake(.target(target)) } }
        try await wait("for the relay to forget") { await $0.relays.commands() == 0 }
        for party in frozen { children[party]?.resume() }
        for party in plan.parties { children[party]?.tell(.stop) }
        try await wait("for everybody to stop") { drive in !drive.children.values.contains { $0.isRunning } }
        ledger.direct = directCommands
        if plan.hasPaths, ledger.direct == 0 { ledger.recordAnomaly("no command went directly") }
        for node in relays.nodes where try await node.stop() != 0 { ledger.recordAnomaly("relayd did not stop well") }
        return duration
    }

    private var isDone: Bool {
        strikes.isEmpty && cuts.isEmpty && mishaps.isEmpty && strikesAtWork == 0 && naps.isEmpty
            && lanes.values.allSatisfy { $0.waiting.isEmpty && $0.current == nil && $0.open == 0 }
    }

    /// Waits for a condition, and fails if no report arrives for too long.
    private func wait(_ what: String, until isMet: (isolated Drive) async -> Bool) async throws {
        lastReport = .now
        while !(await isMet(self)) {
            if let failure { throw failure }
            if ContinuousClock.now - lastReport > .seconds(1) { openForgotten() }
            guard ContinuousClock.now - lastReport < patience else { throw Failed(description: "waited \(what), and nothing happens") }
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    // MARK: Starting and killing

    /// - Parameter notification: The data of the push that starts it.
    func start(_ party: Party, joining: Bool, notification: [String: String]? = nil) async throws {
        guard children[party] == nil, starting.insert(party).inserted else { return }
        defer { starting.remove(party) }
        // All reports of the previous process come before those of the new one.
        ready.remove(party)
        await readers[party]?.value
        let home = home(of: party)
        try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
        let command = if case .sender = party { "send" } else { "host" }
        var arguments = [command, "--relay", relays.nodes[node(of: party)].origin, "--relay-id", "\(relayID)", "--directory", home.path]
        if case .target = party { arguments += ["--token", "\(party)"] }
        if plan.hasPaths { arguments.append("--nearby") }
        if let notification {
            arguments += ["--notification", String(decoding: try JSONEncoder().encode(notification), as: UTF8.self)]
        }
        if joining { arguments += ["--join", try await relays.nodes[0].run("invite", "Anna")] }
        let child = try ChildProcess(arguments, errors: Self.file(home.appending(path: "log")))
        lives[party, default: 0] += 1
        let life = lives[party, default: 0]
        children[party] = child
        let reports = child.reports
        readers[party] = Task {
            for await report in reports { self.take(report, from: party, in: life) }
            self.ended(party, in: life)
        }
        guard joining else { return }
        try await wait("for \(party) to join") { $0.endpoints[party] != nil }
    }

    /// The node that a party dials first.
    private func node(of party: Party) -> Int {
        switch party {
        case .relayd: 0
        case .sender(let number), .target(let number): number % plan.nodes
        }
    }

    func home(of party: Party) -> URL { directory.appending(path: "\(party)".replacingOccurrences(of: " ", with: "-")) }

    /// Fails the run if a process ends that was not killed.
    private func ended(_ party: Party, in life: Int) {
        ending[party] = nil
        guard lives[party] == life, children[party] != nil, !isDone else { return }
        fail("\(party) ended by itself")
    }

    private func strike(_ strike: Plan.Strike) async throws {
        defer { strikesAtWork -= 1 }
        try await Task.sleep(for: .milliseconds(strike.delay))
        let parties = plan.parties
        let first = parties.firstIndex(of: strike.party) ?? 0
        guard let party = (parties[first...] + parties[..<first]).first(where: { isUp($0) }) else { return }
        write("kill", "\(party)")
        ledger.died(party)
        if case .relayd(let node) = party {
            up.remove(node)
            try await relays.nodes[node].kill()
            recoveries.append(Recovery(from: .death))
        } else {
            ready.remove(party)
            drowsy[party] = nil
            frozen.remove(party)
            children.removeValue(forKey: party)?.kill()
        }
        if strike.goesBack { try goBack(party) }
        try await Task.sleep(for: .milliseconds(strike.down))
        write("start", "\(party)")
        if case .relayd(let node) = party {
            try await startAgain(node)
            up.insert(node)
            if strike.isNoticed { for child in children.values { child.tell(.networkChanged) } }
        } else {
            try await start(party, joining: false)
        }
    }

    /// The interface of the local network, in the network namespace of this process.
    private static let interface = "lan0"

    private func cut(_ cut: Plan.Cut) async {
        defer { strikesAtWork -= 1 }
        write("cut", cut.down)
        await Self.set("down")
        try? await Task.sleep(for: .milliseconds(cut.down))
        await Self.set("up")
        write("mend", cut.down)
    }

    private static func set(_ state: String) async {
        _ = try? await ProcessRun.output(of: ["ip", "link", "set", interface, state])
    }

    /// The number of commands in the senders' journals that their targets may have got without the relay. Old ones are removed there.
    private var directCommands: Int {
        (0..<plan.senders).reduce(0) { sum, sender in
            guard let path = try? database(of: .sender(sender)).path else { return sum }
            let count = try? DatabaseQueue(path: path).read { try Int.fetchOne($0, sql: "SELECT count(*) FROM sent_commands WHERE direct") }
            return sum + (count ?? 0)
        }
    }

    private func isUp(_ party: Party) -> Bool {
        if case .relayd(let node) = party { up.contains(node) && !standing.contains(node) } else { children[party] != nil }
    }

    private func advance() {
        progress += 1
        recovered()
        while let next = mishaps.first, progress >= next.progress {
            mishaps.removeFirst()
            begin(next)
        }
        while let next = naps.first, progress >= next.progress {
            naps.removeFirst()
            begin(next)
        }
        while let next = copies.first, progress >= next.progress {
            copies.removeFirst()
            do {
                try copy(next.party)
            } catch {
                fail("\(next.party) cannot be copied: \(error)")
            }
        }
        while let next = cuts.first, progress >= next.progress {
            cuts.removeFirst()
            strikesAtWork += 1
            Task { await self.cut(next) }
        }
        while let next = strikes.first, progress >= next.progress {
            strikes.removeFirst()
            strikesAtWork += 1
            Task {
                do {
                    try await self.strike(next)
                } catch {
                    self.fail("\(next.party) cannot be started again: \(error)")
                }
            }
        }
    }

    func fail(_ text: String) { failure = failure ?? Failed(description: text) }

    // MARK: Reports

    /// The first ledger lines about commands with violations, and about kills and starts.
    func history() throws -> [Substring] {
        let words = ledger.broken.flatMap { entry in
            [#""issue":\#(entry.issue.number),"#, #""issue":\#(entry.issue.number)}"#] + (entry.command.map { [#""\#($0)""#] } ?? [])
        }
        guard !words.isEmpty else { return [] }
        return try String(contentsOf: directory.appending(path: "ledger.jsonl"), encoding: .utf8).split(separator: "\n")
            .filter { line in (words + [#""what":"kill""#, #""what":"start""#]).contains { line.contains($0) } }
            .prefix(100).map(\.self)
    }

    func write(_ what: String, _ value: some Encodable) {
        do {
            try file.write(contentsOf: Line.encode(LedgerLine(at: wallTime(), what: what, value: value)))
        } catch {
            fail("the ledger cannot be written: \(error)")
        }
    }

    private func take(_ numbered: NumberedReport, from party: Party, in life: Int) {
        lastReport = .now
        reports += 1
        write("\(party)", numbered.report)
        switch numbered.report {
        case .ready(let endpoint):
            endpoints[party] = endpoint
        case .found(let commands):
            if case .sender(let sender) = party { found(commands, by: sender) }
        case .submitted(let issue, let command, let expires):
            submitted(issue, command, expires)
        case .notSubmitted(let issue, let reason):
            notSubmitted(issue, reason)
        case .accepted(let command):
            ledger.accepted(command)
        case .ended(let command, let learned):
            ended(command, learned)
            found[party]?.remove(command)
        case .started(let issue, let time):
            ledger.started(issue, at: time)
        case .handled(let issue, let answer):
            ledger.handled(issue, answer)
        case .approved: approved.insert(party)
        case .drowsy: break
        }
        // Acknowledges the report unless the process was killed.
        guard lives[party] == life, let child = children[party] ?? ending[party] else { return }
        child.tell(.goOn(numbered.number))
        if case .drowsy = numbered.report { fallAsleep(party, child) }
        guard case .ready = numbered.report else { return }
        ready.insert(party)
        guard hasBegun, case .sender(let sender) = party else { return }
        for target in 0..<plan.targets { pump(.init(sender: sender, target: target)) }
    }

    /// Compares the stored commands of a started sender with the ledger.
    private func found(_ commands: [Report.Found], by sender: Int) {
        let hasGoneBack = goneBack.remove(.sender(sender)) != nil
        found[.sender(sender)] = Set(commands.map(\.command))
        if hasGoneBack { reconcile(Set(commands.map(\.command)), of: sender) }
        let unknown = commands.filter { ledger.issue(of: $0.command) == nil }
        for target in 0..<plan.targets {
            let lane = Ledger.Lane(sender: sender, target: target)
            let stored = unknown.filter { $0.endpoint == endpoints[.target(target)] }
            guard let current = lanes[lane]?.current else {
                if !stored.isEmpty { ledger.recordAnomaly("\(stored.count) commands that nobody wanted") }
                continue
            }
            if stored.count > 1 { ledger.recordAnomaly("\(current.number) was stored \(stored.count) times") }
            if let command = stored.first {
                submitted(current.number, command.command, command.expires)
            } else if hasGoneBack {
                // It may have been stored, sent and lost.
                ledger.lost(current.number)
                lanes[lane]?.current = nil
                advance()
            } else {
                again(current)
            }
        }
    }

    private func submitted(_ number: Int, _ command: String, _ expires: Int64) {
        ledger.submitted(number, as: command, expires: expires)
        let lane = lane(of: number)
        lanes[lane]?.current = nil
        lanes[lane]?.open += 1
        advance()
        pump(lane)
    }

    /// A command that was not stored may be submitted again.
    private func notSubmitted(_ number: Int, _ reason: String) {
        guard let issue = lanes[lane(of: number)]?.current, issue.number == number else {
            return ledger.recordAnomaly("\(number) was not submitted, and nobody asked for it: \(reason)")
        }
        Task {
            // The sender cannot resolve the targets now.
            try await Task.sleep(for: .milliseconds(100))
            self.again(issue)
        }
    }

    private func again(_ issue: Errand) {
        let lane = lane(of: issue.number)
        guard lanes[lane]?.current == issue else { return }
        lanes[lane]?.current = nil
        lanes[lane]?.waiting.insert(issue, at: 0)
        pump(lane)
    }

    private func ended(_ command: String, _ learned: Learned) {
        guard ledger.ended(command, learned), let issue = ledger.issue(of: command) else { return }
        let lane = lane(of: issue)
        lanes[lane]?.open -= 1
        advance()
        pump(lane)
    }

    /// The commands that senders were ordered to submit and have not reported.
    var ordered: Set<Int> { Set(lanes.values.compactMap { $0.current?.number }) }

    /// A command without an end is lost with its sender's state.
    func close(_ number: Int) {
        lanes[lane(of: number)]?.open -= 1
        advance()
    }

    /// A command that had ended is open again.
    func reopen(_ number: Int) { lanes[lane(of: number)]?.open += 1 }

    private func lane(of number: Int) -> Ledger.Lane {
        let issue = plan.issues[number]
        return Ledger.Lane(sender: issue.sender, target: issue.target)
    }

    /// Orders the next command of a lane if the window permits it.
    private func pump(_ key: Ledger.Lane) {
        guard let lane = lanes[key], lane.current == nil, lane.open < window, let issue = lane.waiting.first,
            ready.contains(.sender(key.sender)), let sender = children[.sender(key.sender)], let endpoint = endpoints[.target(key.target)]
        else { return }
        lanes[key]?.waiting.removeFirst()
        lanes[key]?.current = issue
        sender.tell(.submit(issue, endpoint: endpoint))
    }
}

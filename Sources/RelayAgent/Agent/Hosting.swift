// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

extension AgentContext {
    /// Hosts and publishes an app until a signal.
    /// - Parameters:
    ///   - app: The app. It is hosted before the platform starts, so that waiting commands find it.
    ///   - paired: What the app is for devices of other people, which this one was paired with; `nil` for nothing.
    ///   - output: Prints the requests. An error of the output ends the hosting, because requests that cannot be shown must
    ///     not be answered.
    ///   - isTransient: Whether the app is withdrawn when the process ends, also by a signal. Otherwise it stays published, and launches wait
    ///     for it.
    ///   - until: Settled when the hosting is to end; `nil` for a signal alone.
    ///   - reloads: Whether SIGHUP reloads the settings, and so does not end the hosting.
    ///   - changing: Changes how the local network is used.
    ///   - body: Begins once the app is published. It may return early or run until it is cancelled.
    func host(
        _ app: RemoteSystemAppRegistration,
        paired: RemoteSystemAppRegistration? = nil,
        output: HostOutput,
        isTransient: Bool = false,
        until finished: OneShot<Void>? = nil,
        reloads: Bool = false,
        changing: (inout NearbySettings) -> Void = { _ in },
        _ body: @escaping @Sendable (LocalDevice) async throws -> Void
    ) async throws {
        let stop = StopSignal(reloads: reloads)
        let hasRelay = try home.membership().hasRelay
        guard hasRelay || paired != nil else { throw AgentError.withoutAccount }
        let app = hasRelay ? app : paired ?? app
        try await withAccount(changing: changing) {
            if hasRelay { try $0.host(app, for: Membership.relayAccount) }
            if let paired { try $0.host(paired, for: .anonymous) }
        } _: { local in
            if hasRelay, let paired { try await local.platform.serve(paired) }
            try await withThrowingTaskGroup(of: Bool.self) { group in
                group.addTask {
                    await stop.arrived()
                    return true
                }
                group.addTask {
                    guard let finished else { return false }
                    return await finished.wait() != nil
                }
                group.addTask {
                    try await local.watchConnection(console)
                    return false
                }
                group.addTask {
                    for await error in output.failures { throw error }
                    return false
                }
                let hosted = HostedApps(home)
                group.addTask {
                    if isTransient { try hosted.add(app.appID) }
                    try await local.platform.publish(app, for: local.account)
                    // Only now there is a connection.
                    await hosted.withdrawEnded(by: local, hosting: app.appID)
                    try await body(local)
                    return false
                }
                do {
                    while let isOver = try await group.next(), !isOver {}
                    if isTransient { await withdraw(app.appID, hosted, by: local) }
                    group.cancelAll()
                    await local.platform.shutdown()
                } catch {
                    if isTransient { await withdraw(app.appID, hosted, by: local) }
                    // Only a shutdown ends the wait for an unreachable relay.
                    await local.platform.shutdown()
                    throw error
                }
            }
        }
    }

    /// Withdraws an app before the process ends. Without an answer of the relay, the next process of the home does it.
    private func withdraw(_ appID: String, _ hosted: HostedApps, by local: LocalDevice) async {
        await withTaskGroup(of: Bool.self) { group in
            group.addTask {
                guard await local.unpublish(appID) else { return true }
                try? hosted.remove(appID)
                return true
            }
            group.addTask {
                try? await Task.sleep(for: .seconds(3))
                // Only a shutdown ends the wait for an answer.
                if !Task.isCancelled { await local.platform.shutdown() }
                return false
            }
            while let isOver = await group.next(), !isOver {}
            group.cancelAll()
        }
    }
}

/// The output of a host.
struct HostOutput: Sendable {
    private let console: Console
    let failures: AsyncStream<any Error>
    private let continuation: AsyncStream<any Error>.Continuation

    init(console: Console) {
        self.console = console
        (failures, continuation) = AsyncStream.makeStream(of: (any Error).self, bufferingPolicy: .bufferingOldest(1))
    }

    func print(_ event: some AgentResult) throws {
        do {
            try console.print(event)
        } catch {
            continuation.yield(error)
            throw error
        }
    }
}

extension LocalDevice {
    /// Withdraws an app from all accounts.
    /// - Returns: Whether the relay has confirmed it.
    func unpublish(_ appID: String) async -> Bool {
        var unconfirmed = accounts
        for account in accounts where (try? await platform.unpublish(appID: appID, for: account)) != nil {
            unconfirmed.removeAll { $0 == account }
        }
        return unconfirmed.isEmpty
    }
}

extension ConnectedDevicesPlatform {
    /// Answers paired devices. A pairing may be made later, by another process.
    fileprivate func serve(_ app: RemoteSystemAppRegistration) async throws {
        guard settings.nearby.mode != .off else { return }
        try await accounts.add(.anonymous)
        try await publish(app, for: .anonymous)
    }
}

extension LocalDevice {
    /// Prints why this device cannot be reached.
    fileprivate func watchConnection(_ console: Console) async throws {
        var reported: ConnectionError?
        var pauses = TakeoverPauses()
        for await state in platform.connectionStates(for: account) {
            guard let problem = state.problem else {
                if state.isConnected, reported != nil { console.note("connected again") }
                if state.isConnected { reported = nil }
                continue
            }
            // A polling agent suspends itself.
            if problem.code == .suspended { continue }
            if state.phase == .stopped {
                guard problem.code == .endpointInUse else { throw problem }
                let pause = pauses.next(at: .now)
                console.note("not connected: \(problem.message); trying again in \(pause.components.seconds / 60) min")
                reported = problem
                try await Task.sleep(for: pause)
                await platform.resume()
                continue
            }
            if reported != problem { console.note("not connected: \(problem.message)") }
            reported = problem
        }
    }
}

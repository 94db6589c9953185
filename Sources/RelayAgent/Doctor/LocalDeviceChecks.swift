// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Checks that need a signed-in device.
struct LocalDeviceChecks: Sendable {
    private static let patience = Duration.seconds(15)

    let local: LocalDevice
    let target: String?

    func run() async -> [Doctor.Check] {
        do {
            try await local.waitForDirectory()
        } catch {
            return [Doctor.Check(.login, failed: error, advice: Self.advice(AgentError(error)))]
        }
        // An agent keeps the list of devices when its connection is lost.
        if let failure = await connectionFailure() { return [Doctor.Check(.login, failed: failure, advice: Self.advice(failure))] }
        let endpoints = local.platform.endpoints(for: local.account)
        let devices = Set(endpoints.filter { !$0.isLocal }.map(\.systemID)).count
        let node = local.platform.node(of: local.account)
        let served = node.map { ", and is served by \($0)" } ?? ""
        let version = local.platform.relaySoftware(of: local.account).map { " (version \($0))" } ?? ""
        let others = devices == 1 ? "1 other device" : "\(devices) other devices"
        var login = Doctor.Check(.login, .ok, "the relay\(version) accepts this device; the account has \(others)\(served)")
        login.node = node
        var checks = [login]
        let own = endpoints.first { $0.isLocal }
        checks.append(presence(own))
        checks.append(await mailbox(own))
        checks.append(links(own))
        if let target { checks.append(await device(target)) }
        return checks
    }

    /// The messages of the other problems say what to do.
    private static func advice(_ failure: AgentError) -> String? {
        switch failure.code {
        case "notSignedIn": "join again with a new link, from `relay invite` on another device or `relayd invite`: relay join"
        case "endpointInUse": copyAdvice
        default: nil
        }
    }

    private static let copyAdvice = "delete the copy on the other machine, and let that one join with a link of its own: relay invite"

    /// Why this device is not connected now; `nil` if it is, or comes back within moments.
    private func connectionFailure() async -> AgentError? {
        let (platform, account) = (local.platform, local.account)
        let isConnected = try? await within(.seconds(3)) { () -> Bool? in
            for await state in platform.connectionStates(for: account) {
                if state.phase == .connected { return true }
                // It waits for minutes, because of another one.
                if state.problem?.code == .endpointInUse { return false }
            }
            return nil
        }
        guard isConnected != true else { return nil }
        let problem = await local.connectionState()?.problem
        return problem.map { AgentError($0) }
            ?? AgentError("networkNotAvailable", "this device is not connected to the relay now", .unreachable)
    }

    // MARK: This device

    private func presence(_ own: DeviceDirectory.Endpoint?) -> Doctor.Check {
        guard let own, !own.registrations.isEmpty else {
            return Doctor.Check(
                .presence,
                .warning,
                "this device publishes no app, so others do not see it",
                advice: "run `relay agent`, or have it run always: relay agent install"
            )
        }
        let apps = own.registrations.map { DisplayText.sanitized($0.appID) }.sorted().joined(separator: ", ")
        guard own.presence.state == .available else {
            return Doctor.Check(
                .presence,
                .warning,
                "others see that this device is not connected (\(PresenceText.phrase(own.presence))), with \(apps)",
                advice: "start the process that hosts, such as `relay agent`; commands for this device wait until then"
            )
        }
        guard own.presence.reason != .contested else {
            return Doctor.Check(
                .presence,
                .warning,
                "this device's data is used in two places, which take the connection from each other: it was copied",
                advice: Self.copyAdvice
            )
        }
        return Doctor.Check(.presence, .ok, "others see that this device is connected, with \(apps)")
    }

    /// Sends a message through the relay's mailbox to this device itself.
    private func mailbox(_ own: DeviceDirectory.Endpoint?) async -> Doctor.Check {
        let app = own?.registrations.first { $0.services.contains { $0.name == PingService.name } }
        guard let own, own.presence.state == .available, let app,
            let place = await local.devices(showsAll: true).flatMap(\.apps).first(where: {
                $0.endpoint == own.id && $0.appID == app.appID
            })
        else { return Doctor.Check(.mailbox, .skipped, "no process here can answer; run `relay agent`") }
        do {
            let start = ContinuousClock.now
            _ = try await local.platform.sendStatelessMessage(
                [:],
                to: AppServiceInfo(name: PingService.name, appID: app.appID),
                on: RemoteSystemConnectionRequest(place),
                timeToLive: Self.patience,
                timeout: Self.patience
            )
            return Doctor.Check(.mailbox, .ok, "a message to this device arrived and was answered in \(Self.milliseconds(since: start)) ms")
        } catch {
            return Doctor.Check(.mailbox, failed: error)
        }
    }

    /// Which links others can open here, and the programs that the system has for them.
    private func links(_ own: DeviceDirectory.Endpoint?) -> Doctor.Check {
        let schemes = own?.registrations.first { $0.appID == AgentConfiguration.appID }?.schemes ?? []
        guard !schemes.isEmpty else { return Doctor.Check(.links, .skipped, "no process here opens links of others; run `relay agent`") }
        let installed = HandlerFinder.system?.installed()
        func list(_ asks: Bool) -> String {
            schemes.filter { $0.isDefault != asks }.map { scheme in
                let name = DisplayText.sanitized(scheme.name)
                return installed?.handlers(for: scheme.name).first.map { "\(name) (\(DisplayText.sanitized($0.link.name)))" } ?? name
            }.joined(separator: ", ")
        }
        let (open, asked) = (list(false), list(true))
        let parts = [open.isEmpty ? nil : "can open links here: \(open)", asked.isEmpty ? nil : "after a question: \(asked)"]
        return Doctor.Check(.links, .ok, "others \(parts.compactMap(\.self).joined(separator: "; "))")
    }

    // MARK: Another device

    private func device(_ text: String) async -> Doctor.Check {
        do {
            let (system, named) = try await local.place(text)
            let name = DisplayText.sanitized(system.displayName)
            let found = try? await local.app(offering: PingService.name, on: text, takesAny: true).1
            guard let app = named ?? found, app.appServices.contains(where: { $0.name == PingService.name }) else {
                return Doctor.Check(
                    .device,
                    .skipped,
                    "'\(name)' has no app that could answer (\(PresenceText.phrase(system.presence)))",
                    advice: "run `relay agent` there"
                )
            }
            guard app.presence.state == .available else {
                throw AgentError(
                    "remoteSystemUnavailable",
                    PresenceText.notConnected(name, app.presence),
                    .unreachable
                )
            }
            let start = ContinuousClock.now
            let service = AppServiceInfo(name: PingService.name, appID: app.appID)
            let (opened, answered) = try await local.platform.withAppService(
                service,
                on: RemoteSystemConnectionRequest(app),
                timeout: Self.patience
            ) { connection in
                let opened = ContinuousClock.now
                _ = try await connection.send([:], timeout: Self.patience)
                return (opened, ContinuousClock.now)
            }
            let times = "in \(Self.milliseconds(opened - start)) ms, and an answer took \(Self.milliseconds(answered - opened)) ms"
            return Doctor.Check(.device, .ok, "'\(name)' accepted a connection \(times)")
        } catch {
            return Doctor.Check(.device, failed: error, advice: Self.advice(forDevice: AgentError(error)))
        }
    }

    private static func advice(forDevice failure: AgentError) -> String? {
        switch failure.status {
        case .unreachable: "run `relay doctor` there too: the device must be on and connected, and its agent has to run"
        case .declined: "run `relay approve` there for this device, and compare the words with those of `relay whoami` here"
        default: nil
        }
    }

    private static func milliseconds(since start: ContinuousClock.Instant) -> Int { milliseconds(ContinuousClock.now - start) }
    private static func milliseconds(_ duration: Duration) -> Int { Int((duration / .milliseconds(1)).rounded()) }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ArgumentParser
import DeviceRelay
import Foundation
import RelayProtocol

/// A sender: submits commands on order, and reports the outcomes of all commands in its storage.
struct Send: AsyncParsableCommand {
    static let configuration = CommandConfiguration(shouldDisplay: false)

    @OptionGroup var member: Member

    func run() async throws {
        let driver = Driver()
        driver.listen()
        let platform = try member.platform()
        let endpoint = try await member.start(platform)
        let commands = try await platform.commands(for: member.account)
        await driver.tell(.found(commands.map { .init(command: "\($0.id)", endpoint: "\($0.target.endpoint)", expires: $0.expiry) }))
        for command in commands { Task { await Self.watch(command, driver) } }
        await driver.tell(.ready(endpoint: endpoint))
        for await order in driver.orders {
            switch order {
            case .goOn, .notify, .fallAsleep: break
            case .submit(let issue, let endpoint): Task { try await Self.submit(issue, to: endpoint, platform, driver) }
            case .networkChanged: await platform.networkChanged()
            case .approve:
                Task {
                    try await platform.approveAll(of: member.account)
                    await driver.tell(.approved)
                }
            case .stop:
                await platform.shutdown()
                return
            }
        }
    }

    private static func submit(_ issue: Errand, to endpoint: String, _ platform: ConnectedDevicesPlatform, _ driver: Driver) async throws {
        let request = RemoteSystemConnectionRequest(endpoint: try EndpointID(endpoint).unwrapped, appID: Member.app)
        let life = Duration.milliseconds(issue.life)
        let command: RemoteCommand
        do {
            if issue.isMessage {
                let message: ValueSet = ["Issue": .int(Int64(issue.number))]
                command = try await platform.submitStatelessMessage(
                    message,
                    to: Member.service,
                    on: request,
                    timeToLive: life,
                    timeout: .seconds(30)
                )
            } else {
                let uri = try URL(string: "film:\(issue.number)").unwrapped
                command = try await RemoteLauncher(platform).submit(uri, on: request, options: .init(timeToLive: life))
            }
        } catch {
            return await driver.tell(.notSubmitted(issue: issue.number, reason: "\(error)"))
        }
        await driver.tell(.submitted(issue: issue.number, command: "\(command.id)", expires: command.expiry))
        Task { await watch(command, driver) }
        if let delay = issue.cancelAfter {
            try await Task.sleep(for: .milliseconds(delay))
            try await command.cancel()
        }
    }

    private static func watch(_ command: RemoteCommand, _ driver: Driver) async {
        var isAccepted = false
        for await status in command.statuses {
            if status.outcome != nil { break }
            if !isAccepted { await driver.tell(.accepted(command: "\(command.id)")) }
            isAccepted = true
        }
        // Otherwise the platform was shut down.
        guard command.isEnded else { return }
        await driver.tell(.ended(command: "\(command.id)", await Learned(command)))
    }
}

extension RemoteCommand {
    fileprivate var expiry: Int64 { Int64((expiresAt.timeIntervalSince1970 * 1_000).rounded()) }
}

extension Learned {
    fileprivate init(_ command: RemoteCommand) async {
        if let outcome = command.status?.outcome, let witness = command.status?.attestedBy {
            self.init(ending: Ending(outcome), byTarget: witness == .target)
            answer = (try? await command.answer())?["Issue"]?.int.map { Int($0) }
        } else {
            do throws(RemoteLaunchError) {
                _ = try await command.outcome()
                self.init(ending: .refused, byTarget: false, reason: "no status")
            } catch {
                self.init(ending: error.code == .cancelled ? .withdrawn : .refused, byTarget: false, reason: "\(error)")
            }
        }
    }
}

extension Ending {
    fileprivate init(_ outcome: CommandOutcome) {
        switch outcome {
        case .succeeded: self = .succeeded
        case .declined: self = .declined
        case .unsupported: self = .unsupported
        case .failed: self = .failed
        case .expired: self = .expired
        case .cancelled: self = .cancelled
        case .indeterminate(.interrupted): self = .interrupted
        case .indeterminate(.forgotten): self = .forgotten
        case .indeterminate(.timedOut): self = .timedOut
        case .indeterminate(.targetLost): self = .targetLost
        }
    }
}

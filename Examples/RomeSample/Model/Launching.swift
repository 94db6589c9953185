// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import Observation

/// Launches a URI on a device, and follows the launch to its end.
@MainActor @Observable final class Launching {
    var uri = "https://www.swift.org"
    /// Launched instead if no app there declares the scheme; may be empty.
    var fallback = ""
    /// How long it may wait for a device that sleeps, in minutes.
    var minutes = 5
    private(set) var notice: Notice?
    private(set) var command: RemoteCommand?

    let target: LaunchTarget
    private let platform: ConnectedDevicesPlatform

    init(_ target: LaunchTarget, on platform: ConnectedDevicesPlatform) { (self.target, self.platform) = (target, platform) }

    /// Whether it is on its way, so that it can be cancelled.
    var isRunning: Bool { notice?.kind == .progress }

    /// Launches, and returns when the launch has ended. If the task is cancelled, the launch goes on: see `SentCommands`.
    func launch() async {
        command = nil
        guard let (uri, fallback) = checked() else { return }
        notice = .progress("Sending")
        do throws(RemoteLaunchError) {
            let options = RemoteLauncherOptions(fallbackURI: fallback, timeToLive: .seconds(60 * min(max(minutes, 1), 28 * 24 * 60)))
            let command = try await platform.submit(uri, on: target.request, options: options)
            self.command = command
            let isFallback = await command.content()?.uri != uri
            notice = .progress("Stored on this device", "It is sent as soon as there is a connection to the relay.")
            for await status in command.statuses { if let progress = progress(status, command) { notice = progress } }
            let receipt = try await command.outcome()
            notice = Notice(receipt, on: target.deviceName, isFallback: isFallback)
        } catch {
            notice = Notice(error, on: target.deviceName)
        }
    }

    /// Asks for the end of the launch. `notice` then says whether it came in time.
    func cancel() async {
        do throws(RemoteLaunchError) {
            try await command?.cancel()
        } catch {
            notice = Notice(error, on: target.deviceName)
        }
    }

    private func checked() -> (LaunchURI, LaunchURI?)? {
        do throws(LaunchURIError) {
            return (try LaunchURI(uri), fallback.isEmpty ? nil : try LaunchURI(fallback))
        } catch {
            notice = .problem("Not sent", "\(error)", nextStep: NextStep.after(RemoteLaunchError.Code.invalidURI), code: "invalidURI")
            return nil
        }
    }

    private func progress(_ status: CommandStatus, _ command: RemoteCommand) -> Notice? {
        Notice(status, on: target.deviceName, until: command.expiresAt, presence: system?.presence)
    }

    /// The device as it is now.
    private var system: RemoteSystem? {
        try? platform.remoteSystem(named: target.system.id.description, for: ConnectedDevicesAccount(id: target.system.accountID))
    }
}

extension Notice {
    /// How far a launch is; `nil` for the end, which the outcome describes.
    init?(_ status: CommandStatus, on device: String, until expiry: Date, presence: Presence?) {
        let time = expiry.formatted(date: .abbreviated, time: .shortened)
        switch status {
        case .accepted:
            let why =
                switch presence {
                case let presence? where presence.isAsleep: "\(device) is asleep (\(presence.text)). "
                case let presence? where presence.state != .available: "\(device) is not connected (\(presence.text)). "
                default: ""
                }
            self = .progress("Accepted, waiting", why + "The relay keeps it until \(time).")
        case .delivered: self = .progress("On \(device), not opened yet")
        case _ where status.wake != nil: self = .progress("Waking \(device)", "It waits until \(time).")
        default: return nil
        }
    }

    /// A launch that an app there has taken.
    init(_ receipt: LaunchReceipt, on device: String, isFallback: Bool) {
        let app = receipt.target.appID
        self = .success(
            "Opened on \(device)",
            isFallback ? "\(app) took the fallback address." : "\(app) took it, and \(device) signed for it."
        )
    }
}

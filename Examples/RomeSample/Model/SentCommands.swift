// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import Observation

/// The launches and messages that this device sent, also before its last start: what waits for a sleeping device is here.
@MainActor @Observable final class SentCommands {
    struct Row: Identifiable, Hashable {
        let id: CommandID
        /// The address, or the service.
        let content: String
        let notice: Notice
        let canCancel: Bool
    }

    static let mostRows = 50

    private(set) var rows: [Row] = []
    private(set) var notice: Notice?

    private let platform: ConnectedDevicesPlatform
    private let account: ConnectedDevicesAccount

    init(_ platform: ConnectedDevicesPlatform, _ account: ConnectedDevicesAccount) { (self.platform, self.account) = (platform, account) }

    /// Reads the list, the newest first.
    func load() async {
        do throws(RemoteLaunchError) {
            let names = await deviceNames()
            var rows: [Row] = []
            let commands = try await platform.commands(for: account).sorted { $0.expiresAt > $1.expiresAt }
            for command in commands.prefix(Self.mostRows) { rows.append(await row(command, names)) }
            (self.rows, notice) = (rows, nil)
        } catch {
            notice = Notice(error, on: "this device")
        }
    }

    /// Reads the list again after each change, until the task is cancelled.
    func watch() async {
        await load()
        do throws(RemoteLaunchError) {
            var last = try await platform.lastCommandChange(for: account)
            while !Task.isCancelled {
                let next = try await platform.commandChanges(for: account, after: last)
                last = next.changes.last?.sequence ?? last
                if next.hasGap { last = try await platform.lastCommandChange(for: account) }
                await load()
            }
        } catch {
            if !Task.isCancelled { notice = Notice(error, on: "this device") }
        }
    }

    func cancel(_ id: CommandID) async {
        do throws(RemoteLaunchError) {
            try await platform.command(id, for: account)?.cancel()
            await load()
        } catch {
            notice = Notice(error, on: "this device")
        }
    }

    private func row(_ command: RemoteCommand, _ names: [EndpointID: String]) async -> Row {
        let device = names[command.target.endpoint] ?? "a device that is gone"
        let (content, isLaunch): (String, Bool) =
            switch await command.content() {
            case .launch(let uri, _): (uri.text, true)
            case .message(let service): ("Message to \(service)", false)
            case nil: ("Not readable any more", true)
            }
        return Row(
            id: command.id,
            content: ShownText.clean(content),
            notice: await notice(command, device, isLaunch: isLaunch),
            canCancel: !command.isEnded
        )
    }

    private func notice(_ command: RemoteCommand, _ device: String, isLaunch: Bool) async -> Notice {
        guard command.isEnded else {
            return command.status.flatMap { Notice($0, on: device, until: command.expiresAt, presence: nil) }
                ?? .progress("Stored on this device", "It is sent as soon as there is a connection to the relay.")
        }
        do throws(RemoteLaunchError) {
            let receipt = try await command.outcome()
            return isLaunch ? Notice(receipt, on: device, isFallback: false) : .success("Answered by \(device)")
        } catch {
            return Notice(error, on: device)
        }
    }

    /// The names of the devices by their endpoints, as they are now.
    private func deviceNames() async -> [EndpointID: String] {
        let watcher = platform.remoteSystems(matching: [.localVisibility(.showAll)])
        var snapshots = watcher.snapshots.makeAsyncIterator()
        let systems = await snapshots.next() ?? []
        let pairs = systems.flatMap { system in system.apps.map { ($0.endpoint, system.displayName) } }
        return Dictionary(pairs) { first, _ in first }
    }
}

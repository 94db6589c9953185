// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Makes this device visible on its network for ten minutes, and receives what strangers send there, each time after a question at the
/// terminal. It needs no account, and runs beside the agent.
package struct ReceiveVisibly: Sendable {
    var folder: String
    var isOnce: Bool
    var name: String?

    /// - Parameters:
    ///   - folder: The folder for files.
    ///   - isOnce: Whether to end after the first transfer.
    ///   - name: The name of a device that has no account; `nil` for the host name.
    package init(into folder: String, isOnce: Bool, name: String?) { (self.folder, self.isOnce, self.name) = (folder, isOnce, name) }

    /// Runs until SIGINT, SIGTERM, the end of the ten minutes, or with `isOnce` the end of the first transfer.
    package func run(_ context: AgentContext) async throws {
        guard TerminalQuestion.isPossible else {
            throw AgentError("usage", "--visible asks a person about each transfer; run it at a terminal", .usage)
        }
        let stop = StopSignal()
        let console = context.console
        let path = try Receive.place(folder)
        let (first, received) = (OneShot<Void>(), OneShot<Void>())
        let receiving = Receiving(
            appID: Receive.appID,
            folder: path,
            access: .ask,
            keepsNotes: false,
            answerers: Answerers(terminal: TerminalQuestion(console: console)),
            console: console,
            report: {
                if $0.event == .received { received.settle(()) }
                try? console.print($0)
            },
            ended: Receive.settling(first),
            log: { console.note($0) }
        )
        guard let handler = receiving.handler else { return }
        let isOnce = isOnce
        let device = try context.anyDevice(named: name)
        // The person says so here.
        let show = { (settings: inout NearbySettings) in if settings.mode != .off { settings.mode = .visible } }
        try await context.withPlatform(device, connects: false, changing: show) { local in
            let visibility: ReceptionVisibility
            do throws(NearShareError) {
                visibility = try await local.platform.offerReception(handler)
            } catch {
                throw AgentError(error)
            }
            defer { visibility.stop() }
            let name = DisplayText.quoted(device.name)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await stop.arrived() }
                if isOnce { group.addTask { _ = await first.wait() } }
                group.addTask {
                    for await state in visibility.states {
                        switch state {
                        case .starting: break
                        case .visible:
                            console.note(
                                "\(name) is visible to everyone on this network for ten minutes; receiving into \(path); it ends with Ctrl-C"
                            )
                        case .finishing: console.note("this device is not visible any more; what was accepted goes on")
                        case .ended(.stopped): return
                        case .ended(.timedOut):
                            guard isOnce, received.value == nil else { return console.note("the ten minutes are over") }
                            throw AgentError("timedOut", "nobody has sent anything in ten minutes", .pending)
                        case .ended(.tooManyRefusals):
                            let what = "many transfers were declined, so this device is not visible any more; make it visible again"
                            throw AgentError("tooManyRefusals", what, .declined)
                        case .failed(let error): throw AgentError(error)
                        }
                    }
                }
                defer { group.cancelAll() }
                try await group.next()
            }
        }
    }
}

extension AgentError {
    fileprivate init(_ error: NearShareError) {
        self.init("\(error.code)", error.message, .of(error.code, in: ExitStatus.sharing))
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol
import Subprocess

/// Decides on launches: opens what may be opened, asks about the rest, or declines it.
struct LaunchDesk: Sendable {
    /// A handler has five minutes at most.
    static let patience = Duration.seconds(240)

    let configuration: AgentConfiguration.Opening
    let running: RunningPrograms
    /// `nil` where no terminal is to be used.
    let terminal: TerminalQuestion?

    /// - Returns: `nil` if it is not opened because nobody wants it.
    func take(_ request: LaunchRequest) async -> Opener.Outcome? {
        if !configuration.schemes.contains(request.uri.scheme) {
            guard !AgentConfiguration.Opening.neverOpened.contains(request.uri.scheme) else { return nil }
            await request.requestMoreTime()
            guard await mayOpen(request), !request.isCancelled else { return nil }
        }
        return await Opener(command: configuration.command).open(request.uri)
    }

    private func mayOpen(_ request: LaunchRequest) async -> Bool {
        if let prompt = configuration.prompt { return await isAllowed(by: prompt, request) }
        guard let terminal, TerminalQuestion.isPossible else { return false }
        let device = DisplayText.sanitized(request.caller.deviceName) + (request.caller.isNew ? " (new)" : "")
        return await terminal.isYes("'\(device)' wants to open \(request.uri.text) here. Open it?", within: Self.patience)
    }

    private func isAllowed(by prompt: Program, _ request: LaunchRequest) async -> Bool {
        let configuration = Opener.program(prompt, with: request.uri).configuration(environment: [
            "DEVICE_RELAY_URI": request.uri.text,
            "DEVICE_RELAY_DEVICE": "\(request.caller.systemID)",
            "DEVICE_RELAY_DEVICE_NAME": DisplayText.sanitized(request.caller.deviceName),
        ])
        let status = try? await within(Self.patience) {
            try await running.run {
                try await Subprocess.run(configuration, input: .none, output: .discarded, error: .discarded).terminationStatus
            }
        }
        return status?.isSuccess ?? false
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import ProgramTexts
import Subprocess

/// Shows desktop notifications with `notify-send`, if there is one in `PATH` and the user has a session bus.
struct DesktopNotifier: Sendable {
    enum Action: String, CaseIterable {
        case approve, refuse
        case open, take, decline

        /// What the person sees.
        var title: String {
            switch self {
            case .approve: "Approve"
            case .refuse: "Refuse"
            case .open: "Open"
            case .take: "Take"
            case .decline: "Decline"
            }
        }
    }

    enum Answer: Hashable {
        case action(Action)
        /// The notification was closed, or its time is over.
        case none
        /// No notification could be shown.
        case unavailable
    }

    /// How long a notification waits for an answer.
    static let patience = Duration.seconds(3_600)

    let environment: ProgramEnvironment

    private static let program = "notify-send"

    /// Shows a notification, and waits until the person answers or closes it. If the task is cancelled, the notification is closed.
    /// - Parameters:
    ///   - title: Plain text.
    ///   - body: Plain text.
    ///   - patience: How long it waits.
    func show(_ title: String, _ body: String, actions: [Action], within patience: Duration = patience) async -> Answer {
        guard isPossible else { return .unavailable }
        let translation = Translation.current
        let buttons = actions.map { "--action=\($0.rawValue)=\(translation.text($0.title))" }
        // A text that begins with a hyphen is not an option.
        let arguments =
            [Self.program, "--app-name=Device Relay"] + buttons + [
                "--", translation.text(title), NewDeviceText.escaped(translation.text(body)),
            ]
        var configuration = Program(arguments: arguments).configuration(environment.variables(forDesktop: true))
        // With SIGINT it also closes the notification.
        configuration.platformOptions.teardownSequence = [
            .send(signal: .interrupt, toProcessGroup: true, allowedDurationToNextStep: .seconds(2))
        ]
        let run = { @Sendable [configuration] () async throws -> Answer? in
            let result = try await Subprocess.run(configuration, input: .none, output: .string(limit: 256), error: .discarded)
            guard result.terminationStatus.isSuccess else { return .unavailable }
            let word = result.standardOutput.prefix { !$0.isWhitespace }
            return Action(rawValue: String(word)).map { .action($0) } ?? Answer.none
        }
        do {
            return try await RelayAgent.within(patience, run) ?? .none
        } catch {
            return Task.isCancelled ? .none : .unavailable
        }
    }

    /// Whether a notification can probably be shown.
    var isPossible: Bool { Program(arguments: [Self.program]).isThere && hasSessionBus }

    /// Whether programs of this user can reach a session bus.
    private var hasSessionBus: Bool {
        let own = environment.own
        if !(own["DBUS_SESSION_BUS_ADDRESS"] ?? "").isEmpty { return true }
        guard let directory = own["XDG_RUNTIME_DIR"], !directory.isEmpty else { return false }
        return FileManager.default.fileExists(atPath: directory + "/bus")
    }
}

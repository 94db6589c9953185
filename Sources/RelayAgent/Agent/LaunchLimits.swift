// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol
import Synchronization

/// Bounds what launches may use on this machine: the launch rate, the programs that keep running, and the questions. The
/// counts survive a change of the settings.
final class LaunchLimits: Sendable {
    private struct State {
        var rate = LaunchRate()
        var programs = 0
        var newcomersPrograms = 0
        var isAskingForNewcomer = false
    }

    private let state = Mutex(State())

    /// Counts a launch of a known device.
    func admit(_ device: RemoteSystem.ID, _ configuration: AgentConfiguration.Opening) -> LaunchRejection? {
        let perMinute = configuration.launchesPerMinute
        let isWithin = state.withLock { $0.rate.admit(device, isNew: false, perMinute: perMinute, at: .now) }
        return isWithin ? nil : .tooManyLaunches(perMinute: perMinute)
    }

    /// Counts a program before it starts.
    func beginProgram(isNew: Bool, _ configuration: AgentConfiguration.Opening) -> LaunchRejection? {
        state.withLock { state in
            // New devices leave room for known devices.
            let newcomersMost = max(1, configuration.programs / 4)
            guard !isNew || state.newcomersPrograms < newcomersMost else { return .tooManyPrograms(newcomersMost, new: true) }
            guard state.programs < configuration.programs else { return .tooManyPrograms(configuration.programs, new: false) }
            state.programs += 1
            if isNew { state.newcomersPrograms += 1 }
            return nil
        }
    }

    func endProgram(isNew: Bool) {
        state.withLock { state in
            state.programs -= 1
            if isNew { state.newcomersPrograms -= 1 }
        }
    }

    /// Runs a closure that asks the user. One new device asks at a time; known devices do not wait.
    func whileAsking(isNew: Bool, _ body: () async -> LaunchRejection?) async -> LaunchRejection? {
        guard isNew else { return await body() }
        let isFirst = state.withLock { state in
            defer { state.isAskingForNewcomer = true }
            return !state.isAskingForNewcomer
        }
        guard isFirst else { return .othersAreAsking }
        defer { state.withLock { $0.isAskingForNewcomer = false } }
        return await body()
    }
}

/// Why the agent does not open a URI. The sender sees this text, so it contains nothing about this machine.
enum LaunchRejection: Error, Hashable, CustomStringConvertible {
    case neverOpened(scheme: String)
    /// The settings open it neither at once nor after a question.
    case notOpened(scheme: String)
    /// No installed program opens it.
    case noProgram(scheme: String)
    case tooManyLaunches(perMinute: Int)
    case tooManyPrograms(Int, new: Bool)
    /// A page of the local network, launched by a new device.
    case localPage(for: EndpointID)
    case noUserPresent(scheme: String)
    case othersAreAsking
    /// The program that asks failed to start.
    case cannotAsk
    case noAnswer
    case declined
    case cancelled

    var description: String {
        switch self {
        case .neverOpened(let scheme): "\(scheme): links are never opened there"
        case .notOpened(let scheme): "\(scheme): links are not opened there"
        case .noProgram(let scheme): "no program there opens \(scheme): links"
        case .tooManyLaunches(let perMinute): "too many launches: \(perMinute) launches a minute are accepted from one device"
        case .tooManyPrograms(let most, let isNew):
            isNew
                ? "\(most) programs that new devices opened still run there; it starts no more (open.programs)"
                : "\(most) programs that launches opened still run there; it starts no more (open.programs)"
        case .localPage(let endpoint):
            "pages of the local network are not opened for a device that is not approved; run there: relay approve \(endpoint)"
        case .noUserPresent(let scheme): "\(scheme): links are opened only after a question, and no person can be asked there"
        case .othersAreAsking: "another new device is being asked about there; try again in a moment"
        case .cannotAsk: "the program that asks could not be started there"
        case .noAnswer: "the question was not answered there in time"
        case .declined: "the person there declined"
        case .cancelled: "it was cancelled"
        }
    }
}

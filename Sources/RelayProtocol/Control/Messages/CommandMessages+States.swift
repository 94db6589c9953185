// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

// Converts the relay's messages about sent commands to the inputs of `OutboxMachine`.

extension CommandProgress {
    /// `nil` for an end.
    package init?(_ state: RelayMessage.CommandStatus.State) {
        switch state {
        case .accepted: self = .accepted
        case .delivered: self = .delivered
        default: return nil
        }
    }
}

extension CommandRejection {
    /// Creates a rejection from the relay's answer to a `command.send`.
    package init(_ failure: RelayMessage.Failure) {
        let reason: Reason =
            switch failure.code {
            case .idConflict: .idConflict
            case .clockSkew: .clockSkew
            case .numberPassed: .numberPassed
            case .expired: .expired
            case .livesTooLong: .livesTooLong
            case .targetUnknown: .targetUnknown
            case .mailboxFull, .commandTooLarge:
                failure.limit?.error.map { .limit($0) } ?? .other(code: failure.code.rawValue)
            default: .other(code: failure.code.rawValue)
            }
        self.init(reason, mayHaveRun: failure.mayHaveRun, highest: failure.highest)
    }
}

extension RelayMessage.CommandStatus {
    /// Whether the status contains the outcome of the command.
    package var isEnd: Bool {
        switch status {
        case .step, .waking: false
        case .attestedByTarget, .attestedByRelay: true
        }
    }
}

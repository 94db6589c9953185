// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The HTTP status of an exit code: one more column of its table.
extension ExitStatus {
    package var httpStatus: Int {
        switch self {
        case .done: 200
        case .failed, .incomplete: 502
        case .usage: 400
        case .notSignedIn, .unreachable: 503
        case .notFound: 404
        case .declined: 403
        case .expired: 410
        // A command answers 202 instead.
        case .pending: 504
        }
    }
}

extension AgentError {
    /// The HTTP status of this failure. A few codes say more than their exit code.
    package var httpStatus: Int {
        switch code {
        case "ambiguous", "ended": 409
        // Such as a call to this device itself.
        case "notSupported": 400
        case "submissionKeyReused": 422
        case "cancelled" where command != nil: 410
        default: status.httpStatus
        }
    }
}

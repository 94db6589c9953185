// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Observation

/// Asks the person whether this device joins an account, before it is in it: a link may come from any account, and another person may have
/// finished the sign-in.
@MainActor @Observable final class AccountQuestion {
    /// The account that is asked about; `nil` if nothing is asked.
    private(set) var account: AccountToJoin?
    private var continuation: CheckedContinuation<Bool, Never>?

    var title: String { "Join the account \(account?.name ?? "without a name")?" }

    /// Waits for `answer`. A cancelled task, and a newer question, are a no.
    func ask(_ account: AccountToJoin) async -> Bool {
        answer(false)
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                guard !Task.isCancelled else { return continuation.resume(returning: false) }
                (self.account, self.continuation) = (account, continuation)
            }
        } onCancel: {
            Task { @MainActor in  // Owner: it ends at once
                if self.account == account { self.answer(false) }
            }
        }
    }

    /// Answers the question. Without one it does nothing.
    func answer(_ joins: Bool) {
        let waiting = continuation
        (account, continuation) = (nil, nil)
        waiting?.resume(returning: joins)
    }
}

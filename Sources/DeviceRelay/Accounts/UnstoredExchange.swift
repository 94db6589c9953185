// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Synchronization

/// The time between the sending of a secret that works once (a refresh token, a code) and the storing of the tokens that come for it. If the
/// process ended in between, the login would be lost. So a request of an exchange is not cancelled once it is sent, and a program may let
/// `isAnyOpen` delay its end. The time limit of a request bounds an exchange.
package final class UnstoredExchange: Sendable {
    private static let open = Atomic(0)
    private static let waiting = Mutex<(@Sendable () -> Void)?>(nil)

    private struct State {
        var wasSent = false
        var hasEnded = false
    }

    private let state = Mutex(State())

    init() {}

    deinit { end() }

    /// Whether an exchange of this process is open. It takes no lock, so that a signal handler can call it.
    package static var isAnyOpen: Bool { open.load(ordering: .sequentiallyConsistent) > 0 }

    /// Sets what is called whenever the last open exchange has ended.
    package static func whenNoneIsOpen(_ body: @escaping @Sendable () -> Void) { waiting.withLock { $0 = body } }

    /// Whether the secret was sent.
    var wasSent: Bool { state.withLock { $0.wasSent } }

    /// The request is being sent now.
    func begin() {
        state.withLock { state in
            guard !state.wasSent, !state.hasEnded else { return }
            state.wasSent = true
            Self.open.wrappingAdd(1, ordering: .sequentiallyConsistent)
        }
    }

    /// The tokens are stored, or there are none.
    func end() {
        let wasOpen = state.withLock { state in
            defer { state.hasEnded = true }
            return state.wasSent && !state.hasEnded
        }
        guard wasOpen, Self.open.wrappingSubtract(1, ordering: .sequentiallyConsistent).newValue == 0 else { return }
        Self.waiting.withLock { $0 }?()
    }
}

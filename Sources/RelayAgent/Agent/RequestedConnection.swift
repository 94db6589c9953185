// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Synchronization

/// The connection of an agent that polls. It is there while answers of the API need it, and for a while after, so that what was stored is
/// also sent.
final class RequestedConnection: Sendable {
    /// How long it stays.
    private static let linger = Duration.seconds(30)

    /// How long a request waits until the connection begins.
    private static let patience = Duration.seconds(5)

    private struct State {
        var users = 0
        var ending: Task<Void, Never>?
    }

    private let platform: ConnectedDevicesPlatform
    private let account: ConnectedDevicesAccount
    private let state = Mutex(State())

    init(_ platform: ConnectedDevicesPlatform, _ account: ConnectedDevicesAccount) {
        (self.platform, self.account) = (platform, account)
    }

    /// Keeps the connection as long as it lives.
    final class Use: Sendable {
        private let connection: RequestedConnection

        fileprivate init(_ connection: RequestedConnection) {
            self.connection = connection
            connection.state.withLock { state in
                state.users += 1
                state.ending?.cancel()
                state.ending = nil
            }
        }

        deinit { connection.released() }
    }

    private func released() {
        state.withLock { state in
            state.users -= 1
            guard state.users == 0 else { return }
            state.ending = Task {  // Owner: this connection; `end` cancels it
                try? await Task.sleep(for: Self.linger)
                guard !Task.isCancelled, isUnused else { return }
                await platform.suspend()
                // A request came meanwhile.
                if !isUnused { await platform.resume() }
            }
        }
    }

    /// Ends the task that would suspend the platform later.
    func end() { state.withLock { $0.ending?.cancel() } }

    private var isUnused: Bool { state.withLock { $0.users == 0 } }

    /// Resumes the platform, and waits until it has begun to connect: before that, commands would fail because it is suspended.
    func use() async -> Use {
        let use = Use(self)
        await platform.resume()
        let (platform, account) = (platform, account)
        _ = try? await within(Self.patience) { () -> Void? in
            for await state in platform.connectionStates(for: account) {
                if state.phase == .connected { return () }
                if let problem = state.problem, problem.code != .suspended { return () }
            }
            return nil
        }
        return use
    }
}

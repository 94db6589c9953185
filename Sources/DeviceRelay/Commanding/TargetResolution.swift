// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Synchronization

extension ConnectedDevicesPlatform {
    /// Resolves a request in the directory of its account, or if it names no account, of any account that knows the target.
    /// If the relay has not listed the devices yet, it waits for that.
    func resolve<Target: Sendable>(
        _ request: RemoteSystemConnectionRequest,
        within patience: Duration,
        _ find: (DeviceDirectory) throws(TargetError) -> Target
    ) async throws(CommandFailure) -> (LocalEndpoint, Target) {
        let endpoints = state.withLock { state in
            state.endpoints.values.filter { request.accountID == nil || request.accountID == $0.account.id }
        }.sorted { $0.account.id < $1.account.id }
        guard !endpoints.isEmpty else { throw .noAccount }
        var failure: TargetError?
        for endpoint in endpoints {
            do throws(TargetError) {
                return (endpoint, try find(directory(of: endpoint)))
            } catch {
                // The most specific error: another account may not know the device at all.
                if failure == nil || failure == .remoteSystemUnavailable { failure = error }
            }
        }
        let end = ContinuousClock.now + patience
        for endpoint in endpoints where !endpoint.link.value.isEnumerated {
            let link = await endpoint.link.first(within: ContinuousClock.now.duration(to: end)) { $0.isEnumerated || $0.isStopped }
            if Task.isCancelled { throw .taskCancelled }
            guard let link, link.isEnumerated else { throw .noDirectory(endpoint.link.value.state) }
            do throws(TargetError) {
                return (endpoint, try find(directory(of: endpoint)))
            } catch {
                if failure == nil || failure == .remoteSystemUnavailable { failure = error }
            }
        }
        throw .target(failure ?? .remoteSystemUnavailable)
    }

    private func directory(of endpoint: LocalEndpoint) -> DeviceDirectory {
        directories.value[endpoint.account.id] ?? DeviceDirectory(account: endpoint.account.id)
    }
}

extension LocalEndpoint.Link {
    /// Whether the connection cannot recover without the app.
    var isStopped: Bool { state.phase == .stopped && state.problem != nil }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// The options of a launch.
public struct RemoteLauncherOptions: Hashable, Sendable {
    /// The URI to launch if no app on the device accepts the original one, for example a web page.
    public var fallbackURI: URL?
    /// The app ids that are preferred, the most preferred first; at most 64.
    public var preferredAppIDs: [String]
    /// How long the relay stores the launch for a device that is not connected: 5 min by default, 28 days at most.
    public var timeToLive: Duration
    /// How long `launch` waits for the outcome: 30 s by default.
    public var timeout: Duration

    /// Creates options.
    public init(
        fallbackURI: URL? = nil,
        preferredAppIDs: [String] = [],
        timeToLive: Duration = .seconds(5 * 60),
        timeout: Duration = .seconds(30)
    ) {
        self.fallbackURI = fallbackURI
        self.preferredAppIDs = preferredAppIDs
        self.timeToLive = timeToLive
        self.timeout = timeout
    }
}

/// Launches URIs on the user's other devices.
public struct RemoteLauncher: Sendable {
    let platform: ConnectedDevicesPlatform

    /// Creates a launcher for a platform.
    public init(_ platform: ConnectedDevicesPlatform) {
        self.platform = platform
    }

    /// Launches a URI, and returns when the target's handler has accepted it. If no app on the device accepts the URI, the fallback
    /// is tried in the same way.
    /// - Returns: The receipt, signed by the target.
    /// - Throws: `RemoteLaunchError`. After `pending` the launch continues: `RemoteLaunchError.commandID` identifies it, and
    ///   `platform.commands(for:)` finds it. Cancelling the task ends only the wait.
    public func launch(
        _ uri: URL,
        on request: RemoteSystemConnectionRequest,
        options: RemoteLauncherOptions = RemoteLauncherOptions()
    ) async throws(RemoteLaunchError) -> LaunchReceipt {
        let end = ContinuousClock.now + options.timeout
        let launch = try await send(uri, fallback: options.fallbackURI, on: request, options, within: options.timeout)
        do throws(RemoteLaunchError) {
            return try await receipt(of: launch, until: end)
        } catch {
            guard error.code == .protocolUnavailable, !launch.isFallback, let fallback = options.fallbackURI else { throw error }
            var second = try await send(fallback, fallback: nil, on: request, options, within: ContinuousClock.now.duration(to: end))
            second.isFallback = true
            return try await receipt(of: second, until: end)
        }
    }

    /// Stores a launch, which then proceeds independently, and returns at once. The published schemes decide whether the
    /// fallback is used; only `launch` also tries it after the app on the device reported that it does not support the URI.
    /// - Throws: `RemoteLaunchError` if the launch could not be stored or no app can accept it.
    public func submit(
        _ uri: URL,
        on request: RemoteSystemConnectionRequest,
        options: RemoteLauncherOptions = RemoteLauncherOptions()
    ) async throws(RemoteLaunchError) -> RemoteCommand {
        try await send(uri, fallback: options.fallbackURI, on: request, options, within: options.timeout).command
    }

    private struct Sent {
        var command: RemoteCommand
        var isFallback: Bool
    }

    private func receipt(of sent: Sent, until end: ContinuousClock.Instant) async throws(RemoteLaunchError) -> LaunchReceipt {
        let state = await sent.command.state.first(within: ContinuousClock.now.duration(to: end), where: \.isEnded)
        guard state != nil else {
            throw RemoteLaunchError(Task.isCancelled ? .taskCancelled : .pending, commandID: sent.command.id)
        }
        var receipt = try await sent.command.outcome()
        receipt.isFallback = sent.isFallback
        return receipt
    }

    private func send(
        _ uri: URL,
        fallback: URL?,
        on request: RemoteSystemConnectionRequest,
        _ options: RemoteLauncherOptions,
        within patience: Duration
    ) async throws(RemoteLaunchError) -> Sent {
        do throws(CommandFailure) {
            let launch = try Self.uri(uri)
            let second: LaunchURI? = if let fallback { try Self.uri(fallback) } else { nil }
            let preferred = Array(options.preferredAppIDs.prefix(64))
            let (endpoint, resolved) = try await platform.resolve(request, within: patience) { (directory) throws(TargetError) in
                try directory.resolve(launch, fallback: second, preferredAppIDs: preferred, on: request)
            }
            let body = CommandBody.launch(
                .init(
                    uri: resolved.uri,
                    fallbackURI: resolved.isFallback ? nil : second,
                    preferredAppIDs: preferred.isEmpty ? nil : preferred
                )
            )
            let command = try await endpoint.submit(body, to: resolved.target, life: options.timeToLive)
            return Sent(command: command, isFallback: resolved.isFallback)
        } catch {
            throw RemoteLaunchError(error)
        }
    }

    private static func uri(_ url: URL) throws(CommandFailure) -> LaunchURI {
        do throws(LaunchURIError) {
            return try LaunchURI(url)
        } catch {
            throw .invalidURI(error)
        }
    }
}

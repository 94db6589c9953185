// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import Foundation
public import RelayProtocol
import RelayTracing

/// The options of a launch.
public struct RemoteLauncherOptions: Hashable, Sendable {
    /// The URI to launch if no app on the device accepts the original one, for example a web page.
    public var fallbackURI: LaunchURI?
    /// The app ids that are preferred, the most preferred first; at most 64.
    public var preferredAppIDs: [String]
    /// How long the relay stores the launch for a device that is not connected: 5 min by default, 28 days at most.
    public var timeToLive: Duration
    /// How long `launch` waits for the outcome: 30 s by default.
    public var timeout: Duration
    /// Makes a repeat with the same request the same command; `nil` makes each launch a new one.
    public var submissionKey: SubmissionKey?

    /// Creates options.
    public init(
        fallbackURI: LaunchURI? = nil,
        preferredAppIDs: [String] = [],
        timeToLive: Duration = .seconds(5 * 60),
        timeout: Duration = .seconds(30),
        submissionKey: SubmissionKey? = nil
    ) {
        self.submissionKey = submissionKey
        self.fallbackURI = fallbackURI
        self.preferredAppIDs = preferredAppIDs
        self.timeToLive = timeToLive
        self.timeout = timeout
    }
}

extension ConnectedDevicesPlatform {
    /// Launches a URI, and returns when the target's handler has accepted it. If no app there accepts the URI, the fallback
    /// is tried in the same way.
    /// - Returns: The receipt, signed by the target.
    /// - Throws: `RemoteLaunchError`. After `pending` the launch continues: `RemoteLaunchError.commandID` identifies it, and
    ///   `commands(for:)` finds it. Cancelling the task ends only the wait.
    public func launch(
        _ uri: LaunchURI,
        on request: RemoteSystemConnectionRequest,
        options: RemoteLauncherOptions = RemoteLauncherOptions()
    ) async throws(RemoteLaunchError) -> LaunchReceipt {
        try await Trace.span("launch", .producer) { () async throws(RemoteLaunchError) in
            try await launchTraced(uri, on: request, options)
        }
    }

    private func launchTraced(
        _ uri: LaunchURI,
        on request: RemoteSystemConnectionRequest,
        _ options: RemoteLauncherOptions
    ) async throws(RemoteLaunchError) -> LaunchReceipt {
        let end = ContinuousClock.now + options.timeout
        let launch = try await sendLaunch(uri, fallback: options.fallbackURI, on: request, options, within: options.timeout)
        do throws(RemoteLaunchError) {
            return try await receipt(of: launch, until: end)
        } catch {
            guard error.code == .protocolUnavailable, !launch.isFallback, let fallback = options.fallbackURI else { throw error }
            var options = options
            options.submissionKey?.attempt = 1
            var second = try await sendLaunch(fallback, fallback: nil, on: request, options, within: ContinuousClock.now.duration(to: end))
            second.isFallback = true
            return try await receipt(of: second, until: end)
        }
    }

    /// Stores a launch, which then proceeds independently, and returns at once. The published schemes decide whether the
    /// fallback is used; only `launch` also tries it after the app on the device reported that it does not support the URI.
    /// - Throws: `RemoteLaunchError` if the launch could not be stored or no app can accept it.
    public func submit(
        _ uri: LaunchURI,
        on request: RemoteSystemConnectionRequest,
        options: RemoteLauncherOptions = RemoteLauncherOptions()
    ) async throws(RemoteLaunchError) -> RemoteCommand {
        try await Trace.span("submit launch", .producer) { () async throws(RemoteLaunchError) in
            try await sendLaunch(uri, fallback: options.fallbackURI, on: request, options, within: options.timeout).command
        }
    }

    /// Launches the text that a URL has; see `LaunchURI.init(_: URL)`.
    /// - Throws: `RemoteLaunchError` as the launch of a `LaunchURI`, or `invalidURI`.
    public func launch(
        _ url: URL,
        on request: RemoteSystemConnectionRequest,
        options: RemoteLauncherOptions = RemoteLauncherOptions()
    ) async throws(RemoteLaunchError) -> LaunchReceipt {
        try await launch(try LaunchURI(launching: url), on: request, options: options)
    }

    /// Stores a launch of the text that a URL has; see `LaunchURI.init(_: URL)`.
    /// - Throws: `RemoteLaunchError` as for a `LaunchURI`, or `invalidURI`.
    public func submit(
        _ url: URL,
        on request: RemoteSystemConnectionRequest,
        options: RemoteLauncherOptions = RemoteLauncherOptions()
    ) async throws(RemoteLaunchError) -> RemoteCommand {
        try await submit(try LaunchURI(launching: url), on: request, options: options)
    }

    private struct SentLaunch {
        var command: RemoteCommand
        var isFallback: Bool
    }

    private func receipt(of sent: SentLaunch, until end: ContinuousClock.Instant) async throws(RemoteLaunchError) -> LaunchReceipt {
        let state = await sent.command.state.first(within: ContinuousClock.now.duration(to: end), where: \.isEnded)
        guard state != nil else {
            throw RemoteLaunchError(Task.isCancelled ? .taskCancelled : .pending, commandID: sent.command.id)
        }
        var receipt = try await sent.command.outcome()
        receipt.isFallback = sent.isFallback
        return receipt
    }

    private func sendLaunch(
        _ launch: LaunchURI,
        fallback second: LaunchURI?,
        on request: RemoteSystemConnectionRequest,
        _ options: RemoteLauncherOptions,
        within patience: Duration
    ) async throws(RemoteLaunchError) -> SentLaunch {
        do throws(CommandFailure) {
            if let earlier = try await submitted(options.submissionKey, on: request) {
                return SentLaunch(command: earlier, isFallback: await earlier.content()?.uri == second)
            }
            let preferred = Array(options.preferredAppIDs.prefix(64))
            let (provider, resolved) = try await resolve(request, within: patience) { (directory) throws(TargetError) in
                try directory.resolve(launch, fallback: second, preferredAppIDs: preferred, on: request)
            }
            let body = CommandBody.launch(
                .init(
                    uri: resolved.uri,
                    fallbackURI: resolved.isFallback ? nil : second,
                    preferredAppIDs: preferred.isEmpty ? nil : preferred
                )
            )
            let command = try await provider.submit(
                body,
                to: resolved.target,
                life: options.timeToLive,
                senderApp: nil,
                key: options.submissionKey
            )
            return SentLaunch(command: command, isFallback: resolved.isFallback)
        } catch {
            throw RemoteLaunchError(error)
        }
    }
}

extension LaunchURI {
    fileprivate init(launching url: URL) throws(RemoteLaunchError) {
        do throws(LaunchURIError) {
            try self.init(url)
        } catch {
            throw RemoteLaunchError(CommandFailure.invalidURI(error))
        }
    }
}

/// The original's way to launch, for code that is ported: it calls the platform.
public struct RemoteLauncher: Sendable {
    private let platform: ConnectedDevicesPlatform

    /// Creates a launcher for a platform.
    public init(_ platform: ConnectedDevicesPlatform) { self.platform = platform }

    /// See `ConnectedDevicesPlatform.launch(_:on:options:)`.
    public func launch(
        _ uri: LaunchURI,
        on request: RemoteSystemConnectionRequest,
        options: RemoteLauncherOptions = RemoteLauncherOptions()
    ) async throws(RemoteLaunchError) -> LaunchReceipt {
        try await platform.launch(uri, on: request, options: options)
    }

    /// See `ConnectedDevicesPlatform.launch(_:on:options:)`.
    public func launch(
        _ url: URL,
        on request: RemoteSystemConnectionRequest,
        options: RemoteLauncherOptions = RemoteLauncherOptions()
    ) async throws(RemoteLaunchError) -> LaunchReceipt {
        try await platform.launch(url, on: request, options: options)
    }

    /// See `ConnectedDevicesPlatform.submit(_:on:options:)`.
    public func submit(
        _ uri: LaunchURI,
        on request: RemoteSystemConnectionRequest,
        options: RemoteLauncherOptions = RemoteLauncherOptions()
    ) async throws(RemoteLaunchError) -> RemoteCommand {
        try await platform.submit(uri, on: request, options: options)
    }

    /// See `ConnectedDevicesPlatform.submit(_:on:options:)`.
    public func submit(
        _ url: URL,
        on request: RemoteSystemConnectionRequest,
        options: RemoteLauncherOptions = RemoteLauncherOptions()
    ) async throws(RemoteLaunchError) -> RemoteCommand {
        try await platform.submit(url, on: request, options: options)
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol

/// The launches that an app accepts, and their handler: the original's `LaunchUriProvider`.
public struct LaunchHandler: Sendable {
    /// The app's answer to a launch. The caller gets exactly this.
    public enum Result: Hashable, Sendable {
        /// The app has accepted the launch.
        case launched
        /// The app does not support this URI. The caller may try another app, or its fallback URI.
        case unsupported
        /// The app or its user declined the launch. The caller sees the reason: at most 1,024 bytes, without secrets.
        case declined(reason: String)
        /// The app failed to open the URI. The caller sees the reason: at most 1,024 bytes, without secrets.
        case failed(reason: String)

        /// The app or its user declined the launch without a reason.
        public static let declined = Result.declined(reason: "")
    }

    /// The declared URI schemes, in lower case. The handler gets only launches of these schemes, even if the caller names the app.
    public let schemes: [String]
    /// The schemes for which the app is the device's default: of several apps that declare a scheme, the default one gets the launch.
    public let defaultFor: Set<String>
    let handler: @Sendable (LaunchRequest) async throws -> Result

    /// Creates a registration for launches.
    /// - Parameters:
    ///   - schemes: The URI schemes to declare.
    ///   - defaultFor: The schemes for which the app is the device's default.
    ///   - handler: Handles one launch at a time for each sending device and app. After 30 s its task is cancelled and the
    ///     outcome is `indeterminate`; `LaunchRequest.requestMoreTime` extends this to 5 min. An error that it throws is a
    ///     failure.
    public init(
        schemes: [String],
        defaultFor: Set<String> = [],
        _ handler: @escaping @Sendable (LaunchRequest) async throws -> Result
    ) {
        self.schemes = schemes.map { $0.lowercased() }
        self.defaultFor = Set(defaultFor.map { $0.lowercased() })
        self.handler = handler
    }
}

/// A launch for an app. It is delivered at most once.
public struct LaunchRequest: Sendable {
    /// The URI, chosen by the caller. Open it only if the app intends to support its scheme.
    public let uri: LaunchURI
    /// The caller's alternative if the app does not support the URI.
    public let fallbackURI: LaunchURI?
    /// The app ids that the caller prefers, the most preferred first.
    public let preferredAppIDs: [String]
    /// The caller.
    public let caller: AppServiceCaller
    /// Whether the caller has cancelled the launch in the meantime. The handler's answer still counts.
    public var isCancelled: Bool { cancellation.isCancelled }

    let cancellation: RequestCancellation
    let extend: @Sendable () async -> Void

    /// Extends the handler's time from 30 s to 5 min after its start. Later calls have no effect.
    public func requestMoreTime() async { await extend() }
}

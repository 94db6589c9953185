// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import RelayProtocol

/// Which launches an app takes, and what it does with them: the original's `LaunchUriProvider`.
public struct Launching: Sendable {
    /// What an app answers to a launch. Whoever launched is told just this.
    public enum Result: Hashable, Sendable {
        /// It took it.
        case launched
        /// It does not support this URI. The caller may try another app, or its fallback URI.
        case unsupported
        /// It, or its person, does not want to. The reason is told to the caller: at most 1,024 bytes, and nothing secret.
        case declined(reason: String)
        /// It tried, and failed. The reason is told to the caller: at most 1,024 bytes, and nothing secret.
        case failed(reason: String)

        /// It, or its person, does not want to, and gives no reason.
        public static let declined = Result.declined(reason: "")
    }

    /// The URI schemes that it declares, in lower case. Only launches of these come, also those that name the app.
    public let schemes: [String]
    /// Those of them for which it is the device's default: of several apps that declare a scheme, it is the one that is meant.
    public let defaultFor: Set<String>
    let handler: @Sendable (LaunchRequest) async throws -> Result

    /// - Parameters:
    ///   - schemes: The URI schemes that it declares.
    ///   - defaultFor: Those of them for which it is the device's default.
    ///   - handler: Runs for one launch at a time for each device and app that sends. It has 30 s, after which its task is
    ///     cancelled and the outcome is `indeterminate`; `LaunchRequest.requestMoreTime` makes it 5 min. What it throws is a failure.
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

/// A launch that came for an app. It comes once, and never again, whatever happens meanwhile.
public struct LaunchRequest: Sendable {
    /// The URI. It came from elsewhere: open it only if its scheme is one that the app means.
    public let uri: LaunchURI
    /// What to open if the app does not support the URI.
    public let fallbackURI: LaunchURI?
    /// The apps that the caller would like best, the most preferred first.
    public let preferredAppIDs: [String]
    /// Who asks.
    public let caller: AppServiceCaller
    /// Whether the caller has cancelled since. What the handler answers still counts.
    public var isCancelled: Bool { cancellation.isCancelled }

    let cancellation: RequestCancellation
    let extend: @Sendable () async -> Void

    /// Gives the handler 5 min from its start instead of 30 s. Once; later calls change nothing.
    public func requestMoreTime() async { await extend() }
}

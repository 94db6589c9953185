// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// An app service that an app offers to the account's other devices.
public struct AppService: Sendable {
    /// The service's name, at most 128 bytes of visible ASCII; once per app.
    public let name: String
    /// The ids of the apps that may call it, as they call themselves; `nil` for every app.
    public let allowedApps: [String]?
    private let handler: @Sendable (AppServiceConnection, AppServiceCaller) async throws -> Void

    /// A service.
    ///
    /// The caller's `open` succeeds once the handler uses the connection, which is served as long as the handler runs. What the handler throws
    /// before that refuses the connection: an `AppServiceError` with its code and message (`.notAuthorized` for callers that are not to
    /// be served), anything else with `.appUnavailable`. Later it closes the connection with `.cancelled`. The handler's task is cancelled when the
    /// caller gives up before the handler has used the connection, when the caller's device is lost, and when the platform is suspended or
    /// shuts down.
    public init(
        _ name: String,
        allowedApps: [String]? = nil,
        _ handler: @escaping @Sendable (AppServiceConnection, AppServiceCaller) async throws -> Void
    ) {
        self.name = name
        self.allowedApps = allowedApps
        self.handler = handler
    }

    /// Whether an app of this id may call; `nil` stands for one that does not name itself.
    func allows(_ appID: String?) -> Bool {
        guard let allowedApps else { return true }
        return appID.map(allowedApps.contains) ?? false
    }

    /// Runs the handler; the connection ends with it. A stateless message has its answer when this returns.
    package func serve(_ connection: AppServiceConnection, _ caller: AppServiceCaller) async {
        do {
            try await handler(connection, caller)
            connection.finish(nil)
        } catch {
            connection.finish(error)
        }
    }
}

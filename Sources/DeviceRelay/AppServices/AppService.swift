// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// An app service that an app offers to the account's other devices.
public struct AppService: Sendable {
    /// The service's name, at most 128 bytes of visible ASCII; once per app.
    public let name: String
    /// The ids of the apps that may call the service, as the callers state them; `nil` permits every app.
    public let allowedApps: [String]?
    private let handler: @Sendable (AppServiceConnection, AppServiceCaller, BulkStreams) async throws -> Void
    /// Those of the endpoint that offers the service.
    private var streams = BulkStreams()

    /// Creates a service.
    ///
    /// The caller's `openAppService` succeeds once the handler uses the connection. The connection stays open while the handler runs. If
    /// the handler throws before it uses the connection, the connection is rejected: with the code and message of an `AppServiceError`
    /// (such as `.notAuthorized` for a caller that must not use the service), or with `.appUnavailable` for any other error. If it throws
    /// later, the connection is closed with `.cancelled`, or with `.resourceLimitsExceeded` if it throws that code. The handler's task is cancelled when the caller gives up before the handler has
    /// used the connection, when the connection to the caller's device is lost, and when the platform is suspended or shuts down.
    public init(
        _ name: String,
        allowedApps: [String]? = nil,
        _ handler: @escaping @Sendable (AppServiceConnection, AppServiceCaller) async throws -> Void
    ) {
        self.name = name
        self.allowedApps = allowedApps
        self.handler = { connection, caller, _ in try await handler(connection, caller) }
    }

    /// Creates a service that expects bulk streams of its callers.
    package init(
        expectingStreams name: String,
        _ handler: @escaping @Sendable (AppServiceConnection, AppServiceCaller, BulkStreams) async throws -> Void
    ) {
        self.name = name
        allowedApps = nil
        self.handler = handler
    }

    /// A copy that expects bulk streams at an endpoint.
    func expecting(_ streams: BulkStreams) -> AppService {
        var copy = self
        copy.streams = streams
        return copy
    }

    /// Returns whether an app with this id may call; `nil` stands for a caller that states no app id.
    func allows(_ appID: String?) -> Bool {
        guard let allowedApps else { return true }
        return appID.map(allowedApps.contains) ?? false
    }

    /// Runs the handler, and ends the connection after it. When this returns, a stateless message has its response.
    package func serve(_ connection: AppServiceConnection, _ caller: AppServiceCaller) async {
        do {
            try await handler(connection, caller, streams)
            connection.finish(nil)
        } catch {
            connection.finish(error)
        }
    }
}

/// A request to an app service as a Swift type. It is sent as a `ValueSet` with the type's coded fields, and with the call's name under the
/// key `Type`.
public protocol AppServiceCall: Codable, Sendable {
    /// The type of the service's response.
    associatedtype Response: Codable & Sendable
    /// The call's name, sent under the key `Type`. It is unique within the service.
    static var type: String { get }
}

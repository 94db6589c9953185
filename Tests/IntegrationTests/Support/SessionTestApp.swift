// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// The app whose services the session tests call.
enum SessionTestApp {
    static let appID = "org.example.talk"

    static func service(_ name: String) -> AppServiceInfo { AppServiceInfo(name: name, appID: appID) }

    /// - `echo`: answers with the request's message.
    /// - `never`: never answers, except for requests with `Asked`, which it answers with the number of unanswered ones. It
    ///   reports how its connection ends.
    /// - `mute`: never accepts the connection, and reports `opened`.
    static func app(events: Log<String> = Log()) -> RemoteSystemAppRegistration {
        RemoteSystemAppRegistration(
            appID: appID,
            services: [
                AppService("echo") { connection, _ in try await connection.respond(concurrently: 64) { $0.message } },
                AppService("never") { connection, _ in
                    let asked = Log<Bool>()
                    async let served: Void = connection.respond(concurrently: .max) { request in
                        guard request.message["Asked"] == nil else { return ["Asked": .int(Int64(await asked.entries.count))] }
                        await asked.add(true)
                        try await Task.sleep(for: .seconds(86_400))
                        return [:]
                    }
                    let closure = try await connection.closed
                    await events.add("\(closure.status)")
                    try? await served
                },
                AppService("mute") { _, _ in
                    await events.add("opened")
                    try await Task.sleep(for: .seconds(86_400))
                },
            ]
        )
    }

    /// Waits until `never` has the given number of requests.
    static func hasAsked(_ count: Int, on connection: AppServiceConnection) async throws {
        while try await connection.send(["Asked": true], timeout: .seconds(300))["Asked"]?.int != count { await Task.yield() }
    }

    /// The code of the error that an operation throws, or `success`.
    static func outcome<Value>(_ operation: () async throws(AppServiceError) -> Value) async -> String {
        do throws(AppServiceError) {
            _ = try await operation()
            return "success"
        } catch {
            return "\(error.code)"
        }
    }

    /// A message with the given number of encoded bytes, at least 8.
    static func message(encodedBytes count: Int) throws -> ValueSet {
        var size = count
        while true {
            let message: ValueSet = ["D": .data(Array(repeating: 7, count: size))]
            let excess = try message.encodedSize() - count
            if excess == 0 { return message }
            // The size of the head depends on the length.
            size -= excess
        }
    }
}

extension ConnectedDevicesPlatform {
    func open(_ service: String, on pc: EndpointID, timeout: Duration = .seconds(60)) async throws(AppServiceError) -> AppServiceConnection
    {
        try await openAppService(
            SessionTestApp.service(service),
            on: RemoteSystemConnectionRequest(endpoint: pc, appID: SessionTestApp.appID),
            timeout: timeout
        )
    }

    /// Opens a connection over paths that take seconds to fail. On a busy machine this can exceed the other side's time
    /// limit, so it retries.
    func openUntilInTime(_ service: String, on pc: EndpointID) async throws(AppServiceError) -> (AppServiceConnection, attempts: Int) {
        try await open(service, on: pc, despite: [.remoteSystemUnavailable, .timedOut])
    }

    /// Opens a connection after the relay became reachable again. It retries while the platform has not noticed the lost connection.
    func openAgain(_ service: String, on pc: EndpointID) async throws(AppServiceError) -> AppServiceConnection {
        try await open(service, on: pc, despite: [.networkNotAvailable]).0
    }

    /// Retries while the error has one of the given codes.
    private func open(
        _ service: String,
        on pc: EndpointID,
        despite codes: Set<AppServiceError.Code>
    ) async throws(AppServiceError) -> (AppServiceConnection, attempts: Int) {
        var attempts = 0
        while true {
            attempts += 1
            do throws(AppServiceError) {
                return (try await open(service, on: pc), attempts)
            } catch {
                guard codes.contains(error.code) else { throw error }
                await Task.yield()
            }
        }
    }
}

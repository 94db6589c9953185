// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What two endpoints tell each other first on a direct session, where no relay does: their records, their registrations, and the revocations
/// that they know. Until both have, each side holds all other requests of the other.
final class Greeting: Sendable {
    static let info = AppServiceInfo(name: "peer", appID: "device-relay")
    /// How long it may take. Then the session ends.
    static let patience = Duration.seconds(10)
    /// The revocations in one message, and in all.
    private static let page = 128
    static let maximumRevocations = 1_024

    /// The first request of each side.
    struct Greet: AppServiceCall {
        static let type = "greet"

        /// The signed endpoint record.
        var record: [UInt8]
        /// The signed registrations.
        var registrations: [[UInt8]]
        /// Of the ids of all revoked endpoints, sorted.
        var revocations: Digest256

        struct Response: Codable, Sendable {
            /// Whether the signed revocations are to follow.
            var wants: Bool
        }
    }

    /// Signed revocations, in pages.
    struct Revocations: AppServiceCall {
        static let type = "revocations"

        var signed: [[UInt8]]
        var isLast: Bool

        struct Response: Codable, Sendable {}
    }

    /// The endpoint, as the greeting needs it.
    struct Host: Sendable {
        /// The other side.
        let caller: AppServiceCaller
        /// What is told.
        let own: @Sendable () async throws -> Greet
        /// The signed revocations.
        let revocations: @Sendable () async throws -> [[UInt8]]
        /// Takes what the other side tells. Returns whether its revocations are wanted.
        let greeted: @Sendable (Greet) async -> Bool
        let revoked: @Sendable ([[UInt8]]) async -> Void
    }

    private enum Heard {
        case nothing
        case greet(revocations: Int)
        case all
    }

    private let host: Host
    /// Whether the other side has told everything.
    private let heard = CurrentValue(Heard.nothing)
    /// Whether both sides have.
    private let isDone = CurrentValue(false)

    init(_ host: Host) { self.host = host }

    /// Tells the other side everything, and waits until it has done so too.
    func exchange(over session: PeerSession) async throws(AppServiceError) {
        do {
            let connection = try await session.open(Self.info, from: "", timeout: Self.patience)
            defer { connection.close() }
            let answer = try await connection.call(try await host.own(), timeout: Self.patience)
            if answer.wants {
                var rest = try await host.revocations().prefix(Self.maximumRevocations)
                repeat {
                    let page = Array(rest.prefix(Self.page))
                    rest = rest.dropFirst(Self.page)
                    _ = try await connection.call(Revocations(signed: page, isLast: rest.isEmpty), timeout: Self.patience)
                } while !rest.isEmpty
            }
            let all = await heard.first(within: Self.patience) { if case .all = $0 { true } else { false } }
            guard all != nil else { throw AppServiceError(Task.isCancelled ? .cancelled : .timedOut) }
            isDone.update { $0 = true }
        } catch let error as AppServiceError {
            throw error
        } catch {
            throw AppServiceError(.failure, message: "this device cannot say who it is", cause: error)
        }
    }

    /// Holds what the peer asks for until the greeting is done.
    func admitting(_ next: @escaping SessionAdmitter) -> SessionAdmitter {
        { [self] peer, opening in
            guard opening.appID != Self.info.appID else {
                guard opening.serviceName == Self.info.name else { return .refuse(AppServiceError(.appServiceUnavailable)) }
                return .serve(service, Self.info, host.caller)
            }
            guard await isDone.first(within: Self.patience, where: { $0 }) != nil else {
                return .refuse(AppServiceError(.remoteSystemUnavailable, message: "the devices have not greeted each other"))
            }
            return await next(peer, opening)
        }
    }

    private var service: AppService {
        AppService(Self.info.name) { [self] connection, _ in
            try await connection.respond(concurrently: 1) { try await self.answer($0.message) }
        }
    }

    private func answer(_ message: ValueSet) async throws -> ValueSet {
        switch (message["Type"]?.string, heard.value) {
        case (Greet.type, .nothing):
            let greet = try Self.decode(Greet.self, message)
            let wants = await host.greeted(greet)
            heard.update { $0 = wants ? .greet(revocations: 0) : .all }
            return try ValueSetEncoder().encode(Greet.Response(wants: wants))
        case (Revocations.type, .greet(let count)):
            let page = try Self.decode(Revocations.self, message)
            guard page.signed.count <= Self.page, count + page.signed.count <= Self.maximumRevocations else { throw Self.invalid }
            await host.revoked(page.signed)
            heard.update { $0 = page.isLast ? .all : .greet(revocations: count + page.signed.count) }
            return try ValueSetEncoder().encode(Revocations.Response())
        default: throw Self.invalid
        }
    }

    private static func decode<Call: AppServiceCall>(_ call: Call.Type, _ message: ValueSet) throws -> Call {
        guard let decoded = try? ValueSetDecoder().decode(call, from: message) else { throw invalid }
        return decoded
    }

    private static var invalid: AppServiceError { AppServiceError(.invalidMessage, message: "the greeting breaks the protocol") }
}

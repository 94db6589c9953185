// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What two endpoints tell each other first on a direct session, where no relay does: their records, their registrations, and the revocations
/// that they know. Until both have, each side holds all other requests of the other.
final class Greeting: Sendable {
    static let info = AppServiceInfo(name: "peer", appID: "device-relay")
    /// How long it may take.
    static let patience = Duration.seconds(10)
    /// The revocations in one message, and in all: more than an endpoint stores.
    private static let page = 128
    static let maximumRevocations = 2 * PeerBook.maximumRevocations

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
        /// Takes signed revocations. Returns whether all could be decided; another one may come later, once its signer is known.
        let revoked: @Sendable ([[UInt8]]) async -> Bool
        /// All revocations of the other side, whose digest this is, have come and are decided.
        let informed: @Sendable (Digest256) async -> Void
    }

    private enum Heard {
        case nothing
        /// A message is being taken.
        case busy
        case revocations(of: Digest256, count: Int, areDecided: Bool)
        case all
    }

    private let host: Host
    /// Whether the other side has told everything.
    private let heard = CurrentValue(Heard.nothing)
    /// Whether both sides have; `nil` as long as this is open.
    private let isDone = CurrentValue<Bool?>(nil)

    init(_ host: Host) { self.host = host }

    /// Tells the other side everything, and waits until it has done so too.
    func exchange(over session: PeerSession) async throws(AppServiceError) {
        let end = ContinuousClock.now + Self.patience
        func left() -> Duration { max(.zero, ContinuousClock.now.duration(to: end)) }
        do {
            let connection = try await session.open(Self.info, from: "", timeout: left())
            defer { connection.close() }
            let answer = try await connection.call(try await host.own(), timeout: left())
            if answer.wants {
                var rest = try await host.revocations().prefix(Self.maximumRevocations)
                repeat {
                    let page = Array(rest.prefix(Self.page))
                    rest = rest.dropFirst(Self.page)
                    _ = try await connection.call(Revocations(signed: page, isLast: rest.isEmpty), timeout: left())
                } while !rest.isEmpty
            }
            let all = await heard.first(within: left()) { if case .all = $0 { true } else { false } }
            guard all != nil else { throw AppServiceError(Task.isCancelled ? .cancelled : .timedOut) }
            isDone.update { $0 = true }
        } catch {
            isDone.update { $0 = false }
            throw error as? AppServiceError ?? AppServiceError(.failure, message: "this device cannot say who it is", cause: error)
        }
    }

    /// Holds what the peer asks for until the greeting is done.
    func admitting(_ next: @escaping SessionAdmitter) -> SessionAdmitter {
        { [self] peer, opening in
            if opening.appID == Self.info.appID, opening.serviceName == Self.info.name { return .serve(service, Self.info, host.caller) }
            guard await isDone.first(within: Self.patience, where: { $0 != nil }) == true else {
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
        // Several connections may ask at once, so a message leaves the state before it is taken.
        var before = Heard.nothing
        heard.update { state in
            before = state
            if case .all = state { return }
            state = .busy
        }
        switch (message["Type"]?.string, before) {
        case (Greet.type, .nothing):
            let greet = try Self.decode(Greet.self, message)
            let wants = await host.greeted(greet)
            heard.update { $0 = wants ? .revocations(of: greet.revocations, count: 0, areDecided: true) : .all }
            return try ValueSetEncoder().encode(Greet.Response(wants: wants))
        case (Revocations.type, .revocations(let digest, let count, let wereDecided)):
            let page = try Self.decode(Revocations.self, message)
            guard page.signed.count <= Self.page, count + page.signed.count <= Self.maximumRevocations else { throw Self.invalid }
            let areDecided = await host.revoked(page.signed) && wereDecided
            if page.isLast, areDecided { await host.informed(digest) }
            heard.update {
                $0 = page.isLast ? .all : .revocations(of: digest, count: count + page.signed.count, areDecided: areDecided)
            }
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

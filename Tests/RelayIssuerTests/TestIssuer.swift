// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import Foundation
import Logging
import RelayProtocol
import Synchronization
import Testing

@testable import RelayIssuer

/// An issuer with its own directory, clock and log.
final class TestIssuer: Sendable {
    static let origin = "https://relay.example:8443"
    static let url = origin + "/auth"

    let directory = FileManager.default.temporaryDirectory.appendingPathComponent("issuer-\(UUID().uuidString)").path
    private let world = World()
    private let opened = Mutex<Issuer?>(nil)

    /// The callbacks of the issuer. They are a separate object, so that the issuer does not keep its own directory alive.
    private final class World: Sendable {
        let time = Mutex<Milliseconds>(1_700_000_000_000)
        let lines = Mutex("")
        let logins = Mutex<[RevokedLogin]>([])
    }

    init() throws {
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
        try reopen()
    }

    deinit {
        try? opened.withLock { try $0?.close() }
        try? FileManager.default.removeItem(atPath: directory)
    }

    var issuer: Issuer {
        get throws { try #require(opened.withLock { $0 }) }
    }

    var now: Milliseconds { world.time.withLock { $0 } }

    var logged: String { world.lines.withLock { $0 } }

    var revoked: [RevokedLogin] { world.logins.withLock { $0 } }

    /// The key of the ids of registered clients.
    var clientKey: SymmetricKey {
        get throws { try issuer.master.clientKey }
    }

    func pass(_ milliseconds: Int64) { world.time.withLock { $0 = Milliseconds(clamping: $0.count + milliseconds) } }

    /// A code for the account of Ada.
    func invite() async throws -> Secret<String> { try await issuer.invite(subject: try await ada()) }

    /// The subject of the user Ada, who is created at the first call.
    func ada() async throws -> String {
        if let user = try await issuer.users().first(where: { $0.name == "Ada" }) { return user.subject }
        return try await issuer.createUser(name: "Ada")
    }

    /// - Parameter store: `nil` for the one in the directory.
    func make(
        on store: (any IssuerStore)? = nil,
        failuresPerMinute: Int = 100_000,
        grantsPerMinute: Int = 100_000,
        passwordAttemptsPerHour: Int = 100,
        mayInvite: @escaping @Sendable (String) async -> Bool = { _ in true },
        accounts: (any AccountHolder)? = nil,
        operatorName: String? = nil
    ) throws(IssuerError) -> Issuer {
        var settings = Issuer.Settings(origins: [Self.origin, "http://127.0.0.1:8080"], audience: "the-relay")
        settings.failuresPerMinute = failuresPerMinute
        settings.grantsPerMinute = grantsPerMinute
        settings.grantsPerLoginAndMinute = grantsPerMinute
        settings.passwordAttemptsPerHour = passwordAttemptsPerHour
        settings.passwordCost = 4
        settings.mayInvite = { key, _ in await mayInvite(key) }
        settings.accounts = accounts
        settings.operatorName = operatorName
        let world = world
        let now: @Sendable () -> Milliseconds = { world.time.withLock { $0 } }
        let revoked: @Sendable (RevokedLogin) -> Void = { login in world.logins.withLock { $0.append(login) } }
        guard let store else { return try Issuer.open(directory, settings: settings, now: now, logger: logger, revoked: revoked) }
        let master = try MasterKey(path: directory + "/issuer.key", mayCreate: false)
        return Issuer(store: store, master: master, settings: settings, now: now, logger: logger, revoked: revoked)
    }

    /// Closes and opens the issuer, like a restart.
    func reopen() throws {
        try opened.withLock {
            try $0?.close()
            $0 = nil
            $0 = try make()
        }
    }

    /// Copies all files, as they are between two requests.
    func backup() throws -> String {
        let copy = directory + ".backup-\(UUID().uuidString)"
        try opened.withLock {
            try $0?.close()
            $0 = nil
            try FileManager.default.copyItem(atPath: directory, toPath: copy)
            $0 = try make()
        }
        return copy
    }

    /// Restores the files of a copy, as after the loss of a disk.
    func restore(_ copy: String) throws {
        try opened.withLock {
            try $0?.close()
            $0 = nil
            try FileManager.default.removeItem(atPath: directory)
            try FileManager.default.moveItem(atPath: copy, toPath: directory)
            $0 = try make()
        }
    }

    var logger: Logger {
        var logger = Logger(label: "test") { [world] _ in Recorder(write: { line in world.lines.withLock { $0 += line + "\n" } }) }
        logger.logLevel = .trace
        return logger
    }

    private struct Recorder: LogHandler {
        let write: @Sendable (String) -> Void
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.MetadataValue? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            write("\(event.level) \(event.message) \(metadata) \(event.metadata ?? [:])")
        }
    }
}

/// An endpoint that joins, with its key and its tokens.
struct TestDevice: Sendable {
    let key = P256SigningKey()
    var client = "com.example.app"

    func proof(at time: Milliseconds, url: String = TestIssuer.url + "/token", jti: [UInt8] = randomBytes(16)) throws -> String {
        try DPoPProof.make(method: "POST", url: url, jti: jti, now: time, with: key)
    }

    func form(_ fields: [String: String]) throws -> TokenRequest {
        try TokenRequest(Form(parsing: Array(TestDevice.encoded(fields.merging(["client_id": client]) { old, _ in old }).utf8)))
    }

    static func encoded(_ fields: [String: String]) -> String {
        fields.map { "\($0.key)=\($0.value.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? "")" }.joined(separator: "&")
    }

    func join(_ test: TestIssuer, code: Secret<String>, scope: String? = nil, isBound: Bool = true) async throws -> TokenResponse {
        var fields = ["grant_type": TokenRequest.preAuthorizedCode, "pre-authorized_code": code.exposed]
        fields["scope"] = scope
        return try await test.issuer.tokens.exchange(form(fields), proof: isBound ? proof(at: test.now) : nil, at: TestIssuer.url)
    }

    func refresh(_ test: TestIssuer, _ token: Secret<String>?, scope: String? = nil, isBound: Bool = true) async throws -> TokenResponse {
        var fields = ["grant_type": "refresh_token", "refresh_token": try #require(token).exposed]
        fields["scope"] = scope
        return try await test.issuer.tokens.exchange(form(fields), proof: isBound ? proof(at: test.now) : nil, at: TestIssuer.url)
    }
}

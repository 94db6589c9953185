// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import ConsoleFiles
import Logging
import RelayLog
import RelayProtocol

/// What the parts of the issuer share: its store, key, clock, log and names.
struct IssuerContext: Sendable {
    let store: any IssuerStore
    let master: MasterKey
    let now: @Sendable () -> Milliseconds
    let logger: Logger
    /// Is called for every sign-in, successful or not.
    let events: @Sendable (RelayEvent) -> Void
    /// The service's public URLs without a path, the main URL first.
    let origins: [String]
    /// Who runs the relay, for the header of pages.
    var operatorName: String?

    /// The values of `iss`, the main URL first.
    var urls: [String] { origins.map { $0 + Issuer.path } }

    /// Runs a transaction of a request.
    func write<Result: Sendable>(
        _ body: @escaping @Sendable (any IssuerTransaction) throws -> Result
    ) async throws(OAuthError) -> Result {
        try await answering { () async throws(IssuerError) in try await store.write(body) }
    }

    /// Reads for a request.
    func read<Result: Sendable>(
        _ body: @escaping @Sendable (any IssuerTransaction) throws -> Result
    ) async throws(OAuthError) -> Result {
        try await answering { () async throws(IssuerError) in try await store.read(body) }
    }

    /// Converts an error of the issuer into a response, and logs the error.
    func answering<Result>(_ body: () async throws(IssuerError) -> Result) async throws(OAuthError) -> Result {
        do throws(IssuerError) { return try await body() } catch { throw failed(error) }
    }

    func failed(_ error: IssuerError) -> OAuthError {
        logger.error("the issuer failed", metadata: ["error": "\(error)"])
        return .fault
    }

    /// Calls the relay, and converts an error into a response.
    func relaying<Result>(_ body: () async throws -> Result) async throws(OAuthError) -> Result {
        do {
            return try await body()
        } catch {
            logger.error("the relay did not answer the issuer", metadata: ["error": "\(error)"])
            throw .later(PageText("error.relayBusy"), status: 503, after: 5_000)
        }
    }

    /// Returns the name of a user's account, or the start of the subject if there is no such user.
    func account(of subject: String) async -> String {
        let name = try? await store.read { try $0.user(subject)?.name }
        return (name ?? nil) ?? String(subject.prefix(8))
    }

    /// Logs a line about a user's account.
    func log(_ level: Logger.Level, _ message: Logger.Message, of subject: String) async {
        guard logger.logLevel <= level else { return }
        let account = await account(of: subject)
        logger.log(level: level, message, metadata: ["account": "\(account)"])
    }
}

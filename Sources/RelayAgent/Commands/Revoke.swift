// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Revokes a device, or one of its endpoints, permanently.
package struct Revoke: DeviceCommand {
    var target: String
    var question: Question?

    /// - Parameter question: Asks a person, who may name the device; `nil` accepts only an id.
    package init(target: String, asking question: Question? = nil) {
        self.target = target
        self.question = question
    }

    package struct Result: AgentResult {
        package var revoked: [EndpointResult]
        /// Whether the relay has the revocations. Otherwise they are kept, and sent on the next connection.
        package var sent: Bool
        /// Why the relay could not be asked.
        var problem: String?

        enum CodingKeys: CodingKey { case revoked, sent }

        package func lines(_ style: Style) -> [String] { revoked.map { "revoked \($0.description)" } }

        package var notes: [String] {
            guard !sent else { return [] }
            let why = problem.map { " (\($0))" } ?? ""
            return [
                "the relay does not have it yet\(why): the revocation is kept, and the next `relay` command that connects sends it. Until then only this device refuses the other one"
            ]
        }
    }

    package func run(on local: LocalDevice) async throws -> Result {
        try local.checkHasRelay()
        let (endpoints, problem) = try await endpoints(of: local)
        if let question {
            let lines = ["To be revoked, for ever:"] + endpoints.flatMap { $0.facts.facts }
            guard try await question(lines, "Revoke it?") else { throw AgentError("cancelled", "nothing was revoked", .failed) }
        }
        var isSent = true
        var failure: (any Error)?
        // This device refuses each endpoint from now on, even if the relay rejects the revocation of an earlier one.
        for endpoint in endpoints {
            do throws(AccountError) {
                try await local.platform.revoke(endpoint.id, for: local.account)
            } catch {
                // It is signed and stored.
                if error.code == .networkNotAvailable { isSent = false } else { failure = failure ?? error }
            }
        }
        if let failure { throw failure }
        return Result(revoked: endpoints.map(\.facts), sent: isSent, problem: problem?.message)
    }

    private struct Found {
        var id: EndpointID
        var facts: EndpointResult
    }

    /// An endpoint of the account, as the relay lists it or, without the relay, as this device knows it.
    private struct Candidate: NamedEndpoint {
        var id: EndpointID
        var systemID: RemoteSystem.ID
        var deviceName: String
        var summary: String
        /// `nil` for the own one, which cannot be revoked here.
        var facts: EndpointResult?

        init(_ endpoint: DeviceDirectory.Endpoint) {
            let result = EndpointResult(endpoint)
            (id, systemID, deviceName, summary) = (endpoint.id, endpoint.systemID, endpoint.record.name, result.summary)
            facts = endpoint.isLocal ? nil : result
        }

        init(_ known: KnownEndpoint) {
            let (record, result) = (known.record, EndpointResult(known))
            (id, systemID, deviceName, summary) = (record.endpointID, RemoteSystem.ID(record.systemID), record.name, result.description)
            facts = result
        }

        init?(_ local: LocalDevice) {
            guard let id = local.platform.accounts.endpoint(of: local.account), let device = try? local.platform.accounts.systemID,
                let name = try? local.home.membership().name
            else { return nil }
            (self.id, systemID, deviceName, summary) = (id, device, name, "this device, endpoint \(id)")
        }
    }

    /// The endpoints that the text means: of those that the relay lists or, without the relay, of those that this device knows.
    /// - Returns: Also why the relay could not be asked.
    private func endpoints(of local: LocalDevice) async throws -> ([Found], AgentError?) {
        let problem: AgentError?
        let all: [Candidate]
        do {
            try await local.waitForDirectory()
            problem = nil
            all = local.platform.endpoints(for: local.account).map { Candidate($0) }
        } catch {
            let failure = AgentError(error)
            guard failure.status == .unreachable else { throw failure }
            problem = failure
            all = await local.platform.knownEndpoints(for: local.account).map { Candidate($0) } + [Candidate(local)].compactMap(\.self)
        }
        let meant: [Candidate]
        do {
            meant = try EndpointResolver.endpoints(target, in: all, isShown: question != nil)
        } catch let error as AgentError where error.code == "notFound" {
            guard let problem else { throw error }
            throw AgentError(
                "notFound",
                "this device knows no device or endpoint \(target), and the relay cannot be asked: \(problem.message)",
                .notFound
            )
        }
        let found = meant.compactMap { candidate in candidate.facts.map { Found(id: candidate.id, facts: $0) } }
        guard found.count == meant.count else {
            throw AgentError("isLocal", "this is the device itself. To take it out of the account, run: relay leave", .usage)
        }
        return (found, problem)
    }
}

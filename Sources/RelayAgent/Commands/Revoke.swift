// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Revokes a device, or one of its endpoints, permanently.
package struct Revoke: RoutedCommand {
    var target: String
    var question: Question?

    /// - Parameter question: Asks a person, who may name the device; `nil` accepts only an id.
    package init(target: String, asking question: Question? = nil) {
        self.target = target
        self.question = question
    }

    package struct Result: AgentResult, Codable {
        package var revoked: [EndpointResult]
        /// Whether the relay has the revocations. Otherwise they are kept, and sent on the next connection.
        package var sent: Bool
        /// Why the relay could not be asked.
        var problem: String?

        enum CodingKeys: CodingKey { case revoked, sent, problem }

        package func lines(_ style: Style) -> [String] { revoked.map { "revoked \($0.description)" } }

        package var notes: [String] {
            guard !sent else { return [] }
            let why = problem.map { " (\($0))" } ?? ""
            return [
                "the relay does not have it yet\(why): the revocation is kept, and the next `relay` command that connects sends it. Until then only this device refuses the other one"
            ]
        }
    }

    /// The route takes the whole id of one endpoint.
    package func request() throws -> APIRequest {
        try APIRequest(.post, "endpoints", target, "revocation").with(body: [String: String]())
    }

    /// The agent cannot ask: the question is here, and the agent gets ids.
    package func run(_ context: AgentContext) async throws -> Result {
        guard let agent = await AgentClient.find(context), let all = try await agent.endpoints() else { return try await runHere(context) }
        let meant = try EndpointResolver.endpoints(target, in: all, isShown: question != nil)
        guard !meant.contains(where: \.local) else { throw Self.isLocal }
        try await confirm(meant)
        var result = Result(revoked: [], sent: true)
        for endpoint in meant {
            let next = try await agent.run(Revoke(target: endpoint.id), waitingLine: nil)
            result.revoked += next.revoked
            if !next.sent { (result.sent, result.problem) = (false, next.problem) }
        }
        return result
    }

    private func confirm(_ endpoints: [EndpointResult]) async throws {
        guard let question else { return }
        let lines = ["To be revoked, for ever:"] + endpoints.flatMap(\.facts)
        guard try await question(lines, "Revoke it?") else { throw AgentError("cancelled", "nothing was revoked", .failed) }
    }

    private static let isLocal = AgentError(
        "isLocal",
        "this is the device itself. To take it out of the account, run: relay leave",
        .usage
    )

    package func run(on local: LocalDevice) async throws -> Result {
        try local.checkHasRelay()
        let (endpoints, problem) = try await endpoints(of: local)
        try await confirm(endpoints)
        var isSent = true
        var failure: (any Error)?
        // This device refuses each endpoint from now on, even if the relay rejects the revocation of an earlier one.
        for endpoint in endpoints {
            guard let id = EndpointID(endpoint.id) else { continue }
            do throws(AccountError) {
                try await local.platform.revoke(id, for: local.account)
            } catch {
                // It is signed and stored.
                if error.code == .networkNotAvailable { isSent = false } else { failure = failure ?? error }
            }
        }
        if let failure { throw failure }
        return Result(revoked: endpoints, sent: isSent, problem: problem?.message)
    }

    /// This device, as a text may mean it.
    private struct Own: NamedEndpoint {
        var id: String
        var device: String
        var name: String
        var summary: String { "this device, endpoint \(id)" }

        init?(_ local: LocalDevice) {
            guard let id = local.platform.accounts.endpoint(of: local.account), let device = try? local.platform.accounts.systemID,
                let name = try? local.home.membership().name
            else { return nil }
            (self.id, self.device, self.name) = ("\(id)", "\(device)", name)
        }
    }

    /// The endpoints that the text means: of those that the relay lists or, without the relay, of those that this device knows.
    /// - Returns: Also why the relay could not be asked.
    private func endpoints(of local: LocalDevice) async throws -> ([EndpointResult], AgentError?) {
        let problem: AgentError?
        let all: [EndpointResult]
        do {
            try await local.waitForDirectory()
            problem = nil
            all = local.platform.endpoints(for: local.account).map { EndpointResult($0) }
        } catch {
            let failure = AgentError(error)
            guard failure.status == .unreachable else { throw failure }
            problem = failure
            all = await local.platform.knownEndpoints(for: local.account).map { EndpointResult($0) }
        }
        do {
            let meant = try EndpointResolver.endpoints(target, in: all, isShown: question != nil)
            guard !meant.contains(where: \.local) else { throw Self.isLocal }
            return (meant, problem)
        } catch let error as AgentError where error.code == "notFound" {
            guard let problem else { throw error }
            // The own one is not among the known ones.
            if let own = Own(local), (try? EndpointResolver.endpoints(target, in: [own], isShown: question != nil)) != nil {
                throw Self.isLocal
            }
            throw AgentError(
                "notFound",
                "this device knows no device or endpoint \(target), and the relay cannot be asked: \(problem.message)",
                .notFound
            )
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayIssuer
import RelayProtocol
import RelayServer

/// Answers the operator's requests to the running relay.
struct RelayAdministration: Sendable {
    let core: RelayCore
    let issuer: Issuer
    let logger: Logger

    func answer(_ request: AdminRequest) async -> AdminAnswer {
        do {
            switch request.command {
            case .listEndpoints: return AdminAnswer(endpoints: try await endpoints(of: request.account))
            case .revokeEndpoint:
                guard let id = request.endpoint.flatMap({ try? EndpointID(parsing: $0) }) else {
                    return AdminAnswer(error: "an endpoint's id has 52 characters, as `relayd endpoint list` prints it")
                }
                return AdminAnswer(revocation: try await revoke(id, withLetIn: request.withInvited ?? false))
            }
        } catch let error as AdminError {
            return AdminAnswer(error: error.description)
        } catch {
            logger.error("an operator's command failed", metadata: ["error": "\(error)"])
            return AdminAnswer(error: "the relay cannot do it now: its log says why")
        }
    }

    private func revoke(_ endpoint: EndpointID, withLetIn: Bool) async throws -> AdminRevocation {
        guard let revocation = try await core.revoke(endpoint, withLetIn: withLetIn) else {
            throw AdminError("there is no such endpoint: see `relayd endpoint list`")
        }
        for row in revocation.revoked {
            logger.notice("the operator revoked an endpoint", metadata: ["endpoint": "\(row.id.label)"])
        }
        let users = try await issuer.users()
        func shown(_ row: EndpointRow, isConnected: Bool) -> AdminEndpoint {
            let user = users.first { AccountID(of: Identity(issuer: Composition.issuerKey, subject: $0.subject)) == row.account }
            return AdminEndpoint(row, account: user?.name ?? "", isConnected: isConnected)
        }
        return AdminRevocation(
            revoked: revocation.revoked.map { shown($0, isConnected: false) },
            letIn: revocation.letIn.map(shown)
        )
    }

    private func endpoints(of account: String?) async throws -> [AdminEndpoint] {
        let users = try await issuer.users().filter { account == nil || $0.subject == account || $0.name == account }
        guard !users.isEmpty || account == nil else { throw AdminError("there is no such account: see `relayd account list`") }
        var endpoints: [AdminEndpoint] = []
        for user in users {
            let identity = Identity(issuer: Composition.issuerKey, subject: user.subject)
            endpoints += try await core.endpoints(of: identity).map { row, isConnected in
                AdminEndpoint(row, account: user.name, isConnected: isConnected)
            }
        }
        return endpoints
    }
}

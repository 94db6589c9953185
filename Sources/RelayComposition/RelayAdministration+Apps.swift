// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import RelayServer

/// Cross-device app identities and their push credentials.
extension RelayAdministration {
    func apps(_ request: AdminRequest) async throws -> AdminAnswer {
        let answer = try await change(request)
        if request.command != .listApps { await credentialsChanged() }
        return answer
    }

    private func change(_ request: AdminRequest) async throws -> AdminAnswer {
        let id = request.app ?? ""
        let apps = try (request.apps ?? []).map { text in
            guard let app = AppIdentity.App(parsing: text) else {
                let platforms = AppIdentity.App.Platform.allCases.map(\.rawValue).joined(separator: ", ")
                throw AdminError("an app is given as PLATFORM=ID, where PLATFORM is one of \(platforms)")
            }
            return app
        }
        do {
            switch request.command {
            case .addApp:
                let app = try await registry.add(id, apps)
                logger.notice("the operator changed an app identity", metadata: ["identity": "\(app.id)"])
                return AdminAnswer(apps: [app])
            case .removeApp:
                let rest = try await registry.remove(id, apps)
                logger.notice("the operator changed an app identity", metadata: ["identity": "\(id)"])
                return AdminAnswer(apps: rest.map { [$0] } ?? [])
            case .verifyApp:
                let (app, way) = try await registry.verify(id)
                logger.notice("an app identity is proven", metadata: ["identity": "\(app.id)", "by": "\(way.rawValue)"])
                return AdminAnswer(apps: [app])
            case .addCredential:
                guard let credential = request.credential else { throw AdminError("the request has no credentials") }
                let app = try await registry.add(credential.exposed, to: id)
                logger.notice("the operator added push credentials", metadata: ["identity": "\(id)", "type": "\(credential.exposed.type)"])
                return AdminAnswer(apps: [app])
            case .removeCredential:
                let app = try await registry.removeCredential(request.name ?? "", of: id)
                logger.notice("the operator removed push credentials", metadata: ["identity": "\(id)"])
                return AdminAnswer(apps: [app])
            default: return AdminAnswer(apps: try await registry.list())
            }
        } catch let error as AppRegistry.Failure {
            throw AdminError(error.description)
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import RelayServer

/// Cross-device app identities and their push credentials.
extension RelayAdministration {
    func apps(_ request: AdminRequest) async throws -> AdminAnswer {
        if case .listApps = request { return .apps(try await registry.list()) }
        let app: AdminApp?
        do {
            app = try await change(request)
        } catch let error as AppRegistry.Failure {
            throw AdminError(error.description)
        }
        await credentialsChanged()
        return .app(app)
    }

    private func change(_ request: AdminRequest) async throws -> AdminApp? {
        switch request {
        case .addApp(let id, let texts): return try await registry.add(id, try apps(texts))
        case .removeApp(let id, let texts): return try await registry.remove(id, try apps(texts))
        case .verifyApp(let id):
            let (app, way) = try await registry.verify(id)
            logger.notice("an app identity is proven", metadata: ["identity": "\(app.id)", "by": "\(way.rawValue)"])
            return app
        case .addCredential(let credential, let id): return try await registry.add(credential.exposed, to: id)
        case .removeCredential(let credential, let id): return try await registry.removeCredential(credential, of: id)
        default: return nil
        }
    }

    private func apps(_ texts: [String]) throws(AdminError) -> [AppIdentity.App] {
        var apps: [AppIdentity.App] = []
        for text in texts {
            guard let app = AppIdentity.App(parsing: text) else {
                let platforms = AppIdentity.App.Platform.allCases.map(\.rawValue).joined(separator: ", ")
                throw AdminError("an app is given as PLATFORM=ID, where PLATFORM is one of \(platforms)")
            }
            apps.append(app)
        }
        return apps
    }
}

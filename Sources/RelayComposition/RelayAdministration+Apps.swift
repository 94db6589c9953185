// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import RelayProtocol
import RelayServer

/// Cross-device app identities and their push credentials.
extension RelayAdministration {
    /// Carries out a change of an identity.
    func changeApp(_ change: () async throws -> AdminApp?) async throws -> AdminAnswer {
        let app: AdminApp?
        do {
            app = try await change()
        } catch let error as AppRegistry.Failure {
            throw AdminError(error.description)
        }
        await credentialsChanged()
        return .app(app)
    }

    func verifyApp(_ id: String) async throws -> AdminApp {
        let (app, way) = try await registry.verify(id)
        logger.notice("an app identity is proven", metadata: ["identity": "\(app.id)", "by": "\(way.rawValue)"])
        return app
    }

    static func apps(_ texts: [String]) throws(AdminError) -> [AppIdentity.App] {
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

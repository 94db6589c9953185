// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What an app takes from whom, before it is asked itself: launches of web pages from every device of the account; everything else only
/// from devices that somebody has confirmed.
enum AccessPolicy {
    static let openSchemes: Set<String> = ["http", "https"]

    static func check(_ body: CommandBody, from appID: String?, isNew: Bool, to app: RemoteSystemAppRegistration) -> CommandCheck {
        switch body {
        case .launch(let request):
            guard app.launching != nil else { return .refused(.unsupported) }
            return isNew && !openSchemes.contains(request.uri.scheme) ? .refused(.declined) : .valid
        case .message(let name, _):
            guard let service = app.services.first(where: { $0.name == name }) else { return .refused(.unsupported) }
            return isNew || !service.allows(appID) ? .refused(.declined) : .valid
        }
    }
}

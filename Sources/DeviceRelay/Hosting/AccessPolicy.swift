// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The requests that an app accepts before its handlers run: everything from known devices, and what `newCallers` says from new ones.
/// Launches must have a scheme that the app declares.
enum AccessPolicy {
    private static let webSchemes: Set<String> = ["http", "https"]

    static func check(
        _ body: CommandBody,
        from sender: EndpointID,
        _ appID: String?,
        isNew: Bool,
        to app: RemoteSystemAppRegistration
    ) -> CommandCheck {
        switch body {
        case .launch(let request):
            let scheme = request.uri.scheme
            guard let launching = app.launchHandler, launching.schemes.contains(scheme) else { return .refused(.unsupported) }
            let isOpen = app.newCallers == .everything || app.newCallers == .webPages && webSchemes.contains(scheme)
            return isNew && !isOpen ? .refused(.declined(reason: newcomer(sender))) : .valid
        case .message(let name, _):
            guard let service = app.services.first(where: { $0.name == name }) else { return .refused(.unsupported) }
            if isNew, app.newCallers != .everything { return .refused(.declined(reason: newcomer(sender))) }
            return service.allows(appID) ? .valid : .refused(.declined(reason: "the service is for other apps"))
        }
    }

    private static func newcomer(_ sender: EndpointID) -> String {
        "this device is not approved there; approve its endpoint \(sender) on that device, or on another one that it knows"
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The requests that an app accepts before its handlers run: everything from known devices, and what `newCallers` says from new ones.
/// Launches must have a scheme that the app declares. An app with an identity accepts only apps of this identity, and those it names.
enum AccessPolicy {
    private static let webSchemes: Set<String> = ["http", "https"]

    /// Whether a launch counts for the rate of new endpoints.
    static func isBounded(_ body: CommandBody, isNew: Bool, to app: RemoteSystemAppRegistration) -> Bool {
        guard case .launch = body else { return false }
        return isNew && app.newCallers == .webPages
    }

    static func tooManyLaunches(perMinute: Int) -> CommandCheck {
        .refused(.declined(reason: "too many launches: \(perMinute) launches a minute are accepted from new devices"))
    }

    /// - Parameter identity: The identity of the calling app, as its endpoint publishes it.
    static func check(
        _ body: CommandBody,
        from sender: EndpointID,
        _ appID: String?,
        of identity: String?,
        isNew: Bool,
        to app: RemoteSystemAppRegistration
    ) -> CommandCheck {
        switch body {
        case .launch(let request):
            let scheme = request.uri.scheme
            guard let launching = app.launchHandler, launching.schemes.contains(scheme) else { return .refused(.unsupported) }
            let isPage = app.newCallers == .webPages && webSchemes.contains(scheme)
            if isNew, app.newCallers != .everything, !isPage { return .refused(.declined(reason: newcomer(sender))) }
            if isNew, isPage, !app.newCallerBounds.decidesOnLocalPages, !WebHost.isOnInternet(request.uri) {
                let reason =
                    "pages of the local network are not opened for a device that is not approved; run there: relay approve \(sender)"
                return .refused(.declined(reason: reason))
            }
            return app.allows(appID, of: identity) ? .valid : .refused(.declined(reason: "the app is for apps of \(app.identity ?? "")"))
        case .message(let name, _):
            guard let service = app.services.first(where: { $0.name == name }) else { return .refused(.unsupported) }
            if isNew, app.newCallers != .everything { return .refused(.declined(reason: newcomer(sender))) }
            return app.allows(appID, of: identity) && service.allows(appID)
                ? .valid : .refused(.declined(reason: "the service is for other apps"))
        }
    }

    /// The reason for a caller that is known here, and may have been revoked since.
    static let notUpToDate =
        "that device has not heard from its relay for long, so it does not know which devices were revoked; connect it to the relay"

    /// The reason for a caller that is not known here. It names the caller's endpoint, by which `relay` recognizes it.
    static func newcomer(_ sender: EndpointID) -> String {
        "this device is not approved there; approve its endpoint \(sender) on that device, or on another one that it knows"
    }
}

extension RemoteSystemAppRegistration {
    /// Whether another app may use this one.
    /// - Parameter other: The identity of the other app, as its endpoint publishes it.
    func allows(_ appID: String?, of other: String?) -> Bool {
        guard let identity else { return true }
        if let other, other.utf8.elementsEqual(identity.utf8) { return true }
        return appID.map { id in allowedApps.contains { $0.utf8.elementsEqual(id.utf8) } } ?? false
    }
}

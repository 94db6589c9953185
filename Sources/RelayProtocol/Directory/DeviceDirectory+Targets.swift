// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The app that a request is sent to.
package struct ResolvedTarget: Hashable, Sendable {
    package let endpoint: EndpointID
    package let appID: String

    package init(endpoint: EndpointID, appID: String) { (self.endpoint, self.appID) = (endpoint, appID) }
}

/// The target of a launch, and the URI to launch.
package struct ResolvedLaunch: Hashable, Sendable {
    package let target: ResolvedTarget
    package let uri: LaunchURI
    /// Whether the URI is the fallback: no app accepts the URI itself.
    package let isFallback: Bool
}

/// Why a request has no target.
package enum TargetError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The device, or the app's endpoint, is not in the directory.
    case remoteSystemUnavailable
    /// The named app is no longer published.
    case appUnavailable
    /// The device has no app with the service's app id.
    case appNotInstalled
    /// The app has no such service.
    case appServiceUnavailable
    /// No app on the device declares the URI's scheme, or the named app does not.
    case protocolUnavailable
    /// Several apps accept the URI's scheme, and none is preferred: their ids, in order.
    case ambiguous(appIDs: [String])
    /// Only unconfirmed endpoints could accept it, although the device has confirmed ones: their ids, in order.
    case notConfirmed(endpoints: [EndpointID])

    package var description: String {
        switch self {
        case .remoteSystemUnavailable: "the device is not in the directory"
        case .appUnavailable: "the app is no longer published"
        case .appNotInstalled: "no such app is published on the device"
        case .appServiceUnavailable: "the app has no such service"
        case .protocolUnavailable: "no app there declares this URI scheme"
        case .ambiguous(let appIDs): "several apps declare this URI scheme; prefer one of \(appIDs.joined(separator: ", "))"
        case .notConfirmed(let endpoints):
            "only a new endpoint could handle it; confirm \(endpoints.map(\.label).joined(separator: ", ")) first"
        }
    }
}

extension DeviceDirectory {
    /// Resolves the target of a launch.
    ///
    /// On a device, one of the apps that declare the URI's scheme is chosen: the first preferred one, else the only one, else
    /// the default one. If no app declares it, the fallback is tried in the same way. A named app must declare the scheme,
    /// too.
    package func resolve(
        _ uri: LaunchURI,
        fallback: LaunchURI? = nil,
        preferredAppIDs: [String] = [],
        on request: RemoteSystemConnectionRequest
    ) throws(TargetError) -> ResolvedLaunch {
        do throws(TargetError) {
            let target = try resolveLaunch(scheme: uri.scheme, preferredAppIDs: preferredAppIDs, on: request)
            return ResolvedLaunch(target: target, uri: uri, isFallback: false)
        } catch {
            guard error == .protocolUnavailable, let fallback else { throw error }
            let target = try resolveLaunch(scheme: fallback.scheme, preferredAppIDs: preferredAppIDs, on: request)
            return ResolvedLaunch(target: target, uri: fallback, isFallback: true)
        }
    }

    /// Resolves the target of a connection or message to an app service.
    package func resolve(_ service: AppServiceInfo, on request: RemoteSystemConnectionRequest) throws(TargetError) -> ResolvedTarget {
        let pool = try candidates(for: request)
        let offers = { (candidate: Candidate) in
            candidate.registration.appID == service.appID
                && candidate.registration.services.contains { $0.name == service.name }
        }
        if let best = pool.usable.filter(offers).best { return best.target }
        try pool.refuseUnconfirmed(where: offers)
        guard pool.usable.contains(where: { $0.registration.appID == service.appID }) else { throw .appNotInstalled }
        throw .appServiceUnavailable
    }

    /// Finds the app that offers a service: the named one, or the only one on a device, or on a device with several the best installation of
    /// the only app id.
    package func resolve(
        serviceNamed name: String,
        on request: RemoteSystemConnectionRequest
    ) throws(TargetError) -> (info: AppServiceInfo, target: ResolvedTarget) {
        let pool = try candidates(for: request)
        let offers = { (candidate: Candidate) in candidate.registration.services.contains { $0.name == name } }
        let offering = pool.usable.filter(offers)
        guard let best = offering.best else {
            try pool.refuseUnconfirmed(where: offers)
            throw .appServiceUnavailable
        }
        let appIDs = Set(offering.map(\.registration.appID))
        guard appIDs.count == 1 else { throw .ambiguous(appIDs: appIDs.sorted()) }
        return (AppServiceInfo(name: name, appID: best.registration.appID), best.target)
    }

    private func resolveLaunch(
        scheme: String,
        preferredAppIDs: [String],
        on request: RemoteSystemConnectionRequest
    ) throws(TargetError) -> ResolvedTarget {
        let pool = try candidates(for: request)
        if case .app = request.target {
            guard !pool.usable.isEmpty else { throw .appUnavailable }
            guard let app = pool.usable.filter({ $0.scheme(scheme) != nil }).best else { throw .protocolUnavailable }
            return app.target
        }
        let takers = pool.usable.filter { $0.scheme(scheme) != nil }
        for appID in preferredAppIDs {
            if let preferred = takers.filter({ $0.registration.appID == appID }).best { return preferred.target }
        }
        for choice in [takers, takers.filter { $0.scheme(scheme)?.isDefault == true }] {
            if Set(choice.map(\.registration.appID)).count == 1, let best = choice.best { return best.target }
        }
        guard takers.isEmpty else { throw .ambiguous(appIDs: Set(takers.map(\.registration.appID)).sorted()) }
        try pool.refuseUnconfirmed { $0.scheme(scheme) != nil }
        throw .protocolUnavailable
    }

    /// The apps that can be meant by a request. A named app may be unconfirmed. On a device with a confirmed endpoint, only the apps of
    /// confirmed endpoints are usable.
    private func candidates(for request: RemoteSystemConnectionRequest) throws(TargetError) -> Pool {
        switch request.target {
        case .app(let id):
            guard let endpoint = endpoints[id.endpoint] else { throw .remoteSystemUnavailable }
            return Pool(usable: endpoint.candidates.filter { $0.registration.appID == id.appID }, unconfirmed: [])
        case .system(let id):
            let members = endpoints(of: id)
            guard members.contains(where: { !$0.registrations.isEmpty }) else { throw .remoteSystemUnavailable }
            let confirmed = members.filter(\.isConfirmed)
            if confirmed.isEmpty { return Pool(usable: members.flatMap(\.candidates), unconfirmed: []) }
            return Pool(
                usable: confirmed.flatMap(\.candidates),
                unconfirmed: members.filter { !$0.isConfirmed }.flatMap(\.candidates)
            )
        }
    }

    fileprivate struct Candidate {
        let registration: AppRegistration
        let presence: Presence

        var target: ResolvedTarget { ResolvedTarget(endpoint: registration.endpoint, appID: registration.appID) }

        func scheme(_ name: String) -> AppRegistration.Scheme? { registration.schemes.first { $0.name == name } }
    }

    /// The candidates, and those that need confirmation first.
    private struct Pool {
        let usable: [Candidate]
        let unconfirmed: [Candidate]

        func refuseUnconfirmed(where isMatch: (Candidate) -> Bool) throws(TargetError) {
            let endpoints = Set(unconfirmed.filter(isMatch).map(\.registration.endpoint))
            guard endpoints.isEmpty else { throw .notConfirmed(endpoints: endpoints.sorted()) }
        }
    }
}

extension DeviceDirectory.Endpoint {
    fileprivate var candidates: [DeviceDirectory.Candidate] {
        registrations.map { DeviceDirectory.Candidate(registration: $0, presence: presence) }
    }
}

extension [DeviceDirectory.Candidate] {
    /// The candidate with the best presence; the first one, in the order of endpoint ids, if several are equal.
    fileprivate var best: DeviceDirectory.Candidate? {
        self.min { $0.presence.isBetter(than: $1.presence) }
    }
}

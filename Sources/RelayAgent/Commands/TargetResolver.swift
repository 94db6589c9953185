// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol

/// One reading of `DEVICE` or `DEVICE/APP`. A device's name may contain a slash.
struct TargetParse: Hashable {
    var device: String
    var app: String?

    /// All readings, longest device first. The search is by bytes: a slash with a combining character is still a separator.
    static func all(of text: String) -> [TargetParse] {
        let bytes = Array(text.utf8)
        let slashes = bytes.indices.filter { bytes[$0] == UInt8(ascii: "/") }
        return [TargetParse(device: text, app: nil)]
            + slashes.reversed().map {
                TargetParse(
                    device: String(decoding: bytes[..<$0], as: UTF8.self),
                    app: String(decoding: bytes[bytes.index(after: $0)...], as: UTF8.self)
                )
            }
    }
}

/// Finds the device, and optionally the app on it, that a user's text names.
struct TargetResolver {
    struct Found {
        var system: RemoteSystem
        /// The name of the app in the text.
        var appID: String?
        /// The installations of the app: the known ones, or if there are none, the new ones.
        var apps: [RemoteSystemApp]
    }

    /// The matches.
    var fits: [Found] = []
    /// Devices that match but do not have the app.
    var withoutApp: [Found] = []

    /// Tries all readings. A new or paired device never replaces a known one: if any reading names a known device, readings that name
    /// others are ignored.
    /// - Parameter devices: The devices of a name or an id.
    init(_ text: String, devices: (String) -> [RemoteSystem]) {
        var all: [Found] = []
        for reading in TargetParse.all(of: text) {
            let systems = devices(reading.device)
            all += systems.map { system in
                let apps = system.apps.filter { app in reading.app.map { app.appID.utf8.elementsEqual($0.utf8) } ?? false }
                let known = apps.filter { !$0.isNew }
                return Found(system: system, appID: reading.app, apps: known.isEmpty ? apps : known)
            }
            // A complete id is not a name.
            if let system = systems.first, systems.count == 1, "\(system.id)" == reading.device.lowercased() {
                all = [all.removeLast()]
                break
            }
        }
        // A device of another person chooses its name, too.
        if let best = all.map(\.system.rank).min() { all.removeAll { $0.system.rank > best } }
        fits = all.filter { $0.appID == nil || !$0.apps.isEmpty }
        withoutApp = all.filter { $0.appID != nil && $0.apps.isEmpty }
    }
}

extension LocalDevice {
    /// Resolves `DEVICE` or `DEVICE/APP`.
    func target(_ text: String) async throws -> (RemoteSystem, RemoteSystemConnectionRequest) {
        let (system, app) = try await place(text)
        return (system, app.map { RemoteSystemConnectionRequest($0) } ?? RemoteSystemConnectionRequest(system))
    }

    /// Resolves `DEVICE` or `DEVICE/APP` to the app that is to answer for a service: the named one; else, of those that offer the service,
    /// the agent; else the only one.
    /// - Parameters:
    ///   - takesAny: Whether one of several apps is as good as another. Otherwise the user has to name one.
    ///   - preferred: An app that answers in place of the agent.
    func app(
        offering service: String,
        on text: String,
        takesAny: Bool = false,
        preferring preferred: String? = nil
    ) async throws -> (RemoteSystem, RemoteSystemApp) {
        let (system, app) = try await anyApp(offering: service, on: text, takesAny, preferred)
        guard !endpoints.contains(where: { $0.id == app.endpoint && $0.isLocal }) else {
            throw AgentError("isLocal", "'\(DisplayText.sanitized(system.displayName))' is this device itself; name another one", .usage)
        }
        return (system, app)
    }

    private func anyApp(
        offering service: String,
        on text: String,
        _ takesAny: Bool,
        _ preferred: String?
    ) async throws -> (RemoteSystem, RemoteSystemApp) {
        let (system, named) = try await place(text)
        if let named { return (system, named) }
        let name = DisplayText.sanitized(system.displayName)
        let offering = system.apps.filter { app in app.appServices.contains { $0.name.utf8.elementsEqual(service.utf8) } }
        // A new endpoint does not answer for a device that has known endpoints.
        let apps = offering.contains { !$0.isNew } ? offering.filter { !$0.isNew } : offering
        let best = [preferred, AgentConfiguration.appID].map { id in apps.filter { $0.appID == id } }
        let candidates = best.first { !$0.isEmpty } ?? apps
        guard let first = candidates.first else {
            throw AgentError("appServiceUnavailable", "no app on '\(name)' offers the service \(service); \(has(system))", .notFound)
        }
        guard takesAny || candidates.allSatisfy({ $0.appID == first.appID }) else {
            let names = Set(candidates.map { ShellText.word("\(text)/\($0.appID)") }).sorted().joined(separator: " or ")
            throw AgentError("ambiguous", "several apps on '\(name)' offer the service \(service): write \(names)", .usage)
        }
        // Of several installations, one that is connected comes first.
        return (system, candidates.first { $0.presence.state == .available } ?? first)
    }

    func place(_ text: String) async throws -> (RemoteSystem, RemoteSystemApp?) {
        var search = TargetResolver(text, devices: devices(named:))
        // Only a paired device itself tells what it takes now.
        let mayBePaired = search.fits.isEmpty || search.fits.contains { $0.system.authorizationKind == .anonymous }
        if mayBePaired, await !platform.knownDevices(for: .anonymous).isEmpty {
            await platform.greetNearby(for: .anonymous)
            search = TargetResolver(text, devices: devices(named:))
        }
        guard let found = search.fits.first else {
            guard let found = search.withoutApp.first else { throw await notFound(text) }
            guard found.appID != "" else {
                throw AgentError("appMissing", "say which app: \(ShellText.word("\(text)APP")); \(has(found.system))", .usage)
            }
            throw AgentError("appUnavailable", "the device has no app \(found.appID ?? ""); \(has(found.system))", .notFound)
        }
        try await checkIsNoOther(found.system, text)
        guard search.fits.count == 1 else {
            let candidates = search.fits.map { found in
                found.system.candidate + (found.appID.map { ", app \($0)" } ?? "")
            }
            throw AgentError.ambiguous("'\(text)' can mean several", candidates)
        }
        guard found.appID != nil else { return (found.system, nil) }
        guard found.apps.count == 1 else {
            throw AgentError(
                "ambiguous",
                "several endpoints of the device have this app: \(found.apps.map { "\($0.endpoint)" }.joined(separator: ", "))",
                .usage
            )
        }
        return (found.system, found.apps.first)
    }

    /// A name of a known device, including one without apps and one that the relay does not list, never means a new or a paired device.
    func checkIsNoOther(_ system: RemoteSystem, _ text: String) async throws {
        guard account != .anonymous, system.rank > 0, await mayMeanAKnownDevice(text, in: [account], besides: system) else { return }
        let other = system.isNew ? "a new device" : "a paired device of another person"
        throw AgentError.ambiguous("'\(text)' is the name of a known device that publishes no app now, and of \(other)", [system.candidate])
    }

    /// The characters with which an id can be begun.
    static let shortestID = 4

    /// Whether a text may mean a known or paired device: it is its name or id, or begins its id.
    /// - Parameter system: Another device, whose id the text may be.
    func mayMeanAKnownDevice(_ text: String, in accounts: [ConnectedDevicesAccount], besides system: RemoteSystem? = nil) async -> Bool {
        func folded(_ name: String) -> [UInt8] { Array(name.lowercased().utf8) }
        let readings = TargetParse.all(of: text).map(\.device)
        if let system, readings.contains(where: { folded($0) == folded("\(system.id)") }) { return false }
        var (names, ids): (Set<[UInt8]>, Set<[UInt8]>) = ([], [])
        for account in accounts {
            for endpoint in platform.endpoints(for: account) where endpoint.isConfirmed && !endpoint.isLocal {
                names.insert(folded(endpoint.record.name))
                ids.insert(folded("\(endpoint.systemID)"))
            }
            for device in await platform.knownDevices(for: account) {
                names.insert(folded(device.name))
                ids.insert(folded("\(device.id)"))
            }
        }
        return readings.map(folded).contains { text in
            names.contains(text) || text.count >= Self.shortestID && ids.contains { $0.starts(with: text) }
        }
    }

    private func has(_ system: RemoteSystem) -> String {
        let apps = system.apps.map { app in
            let services = app.appServices.map(\.name).sorted().joined(separator: ", ")
            return services.isEmpty ? app.appID : "\(app.appID) (\(services))"
        }
        return apps.isEmpty ? "it has no app" : "its apps: \(Set(apps).sorted().joined(separator: ", "))"
    }
}

extension RemoteSystem {
    /// Known devices of the account come first, then those of other people, then new ones.
    var rank: Int { isNew ? 2 : authorizationKind == .anonymous ? 1 : 0 }

    /// The text that distinguishes devices of the same name.
    var candidate: String {
        let from = joining?.address.map { " from \(DisplayText.sanitized($0))" } ?? ""
        let joined = joining.map { ", joined \(Age.text(since: $0.time, now: .now)) ago\(from)" } ?? ""
        let facts = "\(kind.rawValue), \(platform.rawValue)\(joined), \(PresenceText.phrase(presence))"
        return DisplayText.sanitized("\(id) (\(displayName)\(isNew ? ", new: not approved" : rank == 1 ? ", paired" : ""), \(facts))")
    }
}

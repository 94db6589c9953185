// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
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

    /// Tries all readings. A new device never replaces a known one: if any reading names a known device, readings that name
    /// new devices are ignored.
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
        if all.contains(where: { !$0.system.isNew }) { all.removeAll { $0.system.isNew } }
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

    /// Resolves `DEVICE/APP`.
    func app(_ text: String) async throws -> (RemoteSystem, RemoteSystemApp) {
        let (system, app) = try await place(text)
        guard let app else { throw AgentError("appMissing", "say which app: \(text)/APP; \(has(system))", .usage) }
        return (system, app)
    }

    func place(_ text: String) async throws -> (RemoteSystem, RemoteSystemApp?) {
        let search = TargetResolver(text) { name in
            do throws(RemoteSystemLookupError) {
                return [try platform.remoteSystem(named: name, for: account)]
            } catch {
                if case .ambiguous(let systems) = error { return systems }
                return []
            }
        }
        guard let found = search.fits.first else {
            guard let found = search.withoutApp.first else { throw notFound(text) }
            guard found.appID != "" else { throw AgentError("appMissing", "say which app: \(text)APP; \(has(found.system))", .usage) }
            throw AgentError("appUnavailable", "the device has no app \(found.appID ?? ""); \(has(found.system))", .notFound)
        }
        if found.system.isNew, await isNameOfAKnownDevice(text, besides: found.system) {
            let what = "'\(text)' is the name of a known device that publishes no app now, and of a new device"
            throw AgentError.ambiguous(what, [found.system.candidate])
        }
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

    /// Whether a known device has this name, including devices without apps and devices that the relay does not list. Such a
    /// name never means a new device.
    private func isNameOfAKnownDevice(_ text: String, besides system: RemoteSystem) async -> Bool {
        func folded(_ name: String) -> [UInt8] { Array(name.lowercased().utf8) }
        let readings = TargetParse.all(of: text).map(\.device)
        guard !readings.contains(where: { folded($0) == folded("\(system.id)") }) else { return false }
        var names = Set(platform.endpoints(for: account).filter { $0.isConfirmed && !$0.isLocal }.map { folded($0.record.name) })
        names.formUnion(await platform.knownDevices(for: account).map { folded($0.name) })
        return readings.contains { names.contains(folded($0)) }
    }

    private func has(_ system: RemoteSystem) -> String {
        let known = Set(system.apps.map(\.appID)).sorted().joined(separator: ", ")
        return "it has \(known.isEmpty ? "none" : known)"
    }
}

extension RemoteSystem {
    /// The text that distinguishes devices of the same name.
    var candidate: String { "\(id) (\(displayName)\(isNew ? ", new: not approved" : ""))" }
}

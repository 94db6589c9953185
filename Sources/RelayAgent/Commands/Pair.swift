// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol

/// Pairs this device with another one on the same network, without an account: it shows a code and a link until one device has used them.
package struct Pair: Sendable {
    var name: String?

    /// - Parameter name: The name of a device that has no account; `nil` for the host name.
    package init(name: String?) { self.name = name }

    package struct Event: AgentResult {
        package enum Kind: String, Encodable, Sendable {
            case visible, paired
        }

        package var event: Kind
        /// What this device is called there.
        package var name: String?
        /// Eight digits.
        package var code: String?
        package var link: String?
        /// The attempts that failed.
        package var failures: Int?
        package var device: PairedResult?

        init(_ device: PairedDevice) { (event, self.device) = (.paired, PairedResult(device)) }

        fileprivate init(visibleAs name: String, _ code: PairingCode, _ link: PairingLink?, failures: Int) {
            event = .visible
            (self.name, self.code, self.link, self.failures) = (name, code.text.filter(\.isNumber), link?.text, failures)
        }

        package func lines(_ style: Style) -> [String] {
            switch event {
            case .visible:
                let first =
                    (failures ?? 0) > 0
                    ? ["An attempt with another code failed. There is a new one:"]
                    : ["'\(name ?? "")' is visible on this network for ten minutes. On the other device, run: relay pair --enter"]
                let digits = (code ?? "").prefix(4) + " " + (code ?? "").suffix(4)
                return first + ["code  \(style.show(String(digits), .strong))"] + (link.map { ["link  \($0)"] } ?? [])
            case .paired: return device?.lines(style) ?? []
            }
        }
    }

    /// Runs until this device is paired, or a signal.
    package func run(_ context: AgentContext) async throws {
        try await context.withPairing(named: name) { local, name in
            let pairing = try await local.platform.offerPairing()
            defer { pairing.stop() }
            var shown: PairingLink?
            for await state in pairing.states {
                switch state {
                case .starting: break
                case .visible(let code, let link, let failures):
                    try context.console.print(Event(visibleAs: name, code, link, failures: failures))
                    // The link stays the same after an attempt.
                    if let link, link != shown { try await context.console.showQRCode(of: link.text) }
                    shown = link ?? shown
                case .paired(let device):
                    try context.console.print(Event(device))
                    return
                case .failed(let error): throw error
                }
            }
            throw CancellationError()
        }
    }
}

/// The other side: a person types the code, or pastes the link, that another device shows.
package struct EnterPairing: Sendable {
    var name: String?
    var device: String?

    /// - Parameters:
    ///   - name: The name of a device that has no account; `nil` for the host name.
    ///   - device: The name of the visible device; `nil` for the only one.
    package init(name: String?, device: String?) { (self.name, self.device) = (name, device) }

    /// - Parameter input: Where the code or the link comes from.
    package func run(_ context: AgentContext, _ input: TypedInput) async throws -> Pair.Event {
        try await context.withPairing(named: name) { local, _ in
            let text = try await input.hiddenLine("Type the eight digits that the other device shows, or paste its link; it is not shown:")
            if let code = PairingCode(parsing: text) {
                let visible = try await visible(to: local)
                return Pair.Event(try await local.platform.pair(with: visible, by: code))
            }
            return Pair.Event(try await local.platform.pair(by: try Self.link(text)))
        }
    }

    private static func link(_ text: String) throws(AgentError) -> PairingLink {
        do throws(PairingLinkError) {
            return try PairingLink(parsing: text)
        } catch {
            if error == .scheme, let other = KnownLink(text) { throw other.error }
            let what = error == .scheme ? "this is neither eight digits nor a pairing link" : "\(error)"
            throw AgentError("codeInvalid", "\(what); run `relay pair` on the other device to see both", .usage)
        }
    }

    /// The visible device that is meant.
    private func visible(to local: LocalDevice) async throws -> VisibleDevice {
        let found = try await VisibleSearch(mode: .pair, name: device).run(on: local)
        guard let first = found.fitting.first else {
            let others = found.all.map { DisplayText.quoted($0.name) }.joined(separator: ", ")
            let why = found.all.isEmpty ? "no device on this network is visible" : "of the visible devices none is called that: \(others)"
            throw AgentError("notFound", "\(why); run `relay pair` on the other device, and bring both to the same network", .notFound)
        }
        guard found.fitting.count == 1 else {
            let names = found.fitting.map { "\(DisplayText.quoted($0.name)) (\($0.id))" }.joined(separator: ", ")
            throw AgentError("ambiguous", "several devices are visible: \(names); name one, or its id, with --device", .usage)
        }
        return first
    }
}

/// A device that was just paired.
package struct PairedResult: Encodable, Sendable {
    package var name: String
    package var kind: String
    package var device: String
    package var endpoint: String

    init(_ device: PairedDevice) {
        name = DisplayText.sanitized(device.name)
        kind = DisplayText.sanitized(device.kind.rawValue)
        self.device = "\(device.id)"
        endpoint = "\(device.endpoint)"
    }

    fileprivate func lines(_ style: Style) -> [String] {
        [
            "paired with \(style.show(name, .strong)) (device \(device.prefix(8))). To send it something, run: relay send FILE \(ShellText.word(name))"
        ]
    }
}

/// Ends a pairing.
package struct Unpair: DeviceCommand {
    var target: String

    /// - Parameter target: A name or an id.
    package init(_ target: String) { self.target = target }

    package struct Result: AgentResult {
        package var name: String
        package var endpoint: String

        package func lines(_ style: Style) -> [String] { ["the pairing with \(style.show(name, .strong)) is over; it is not told"] }
    }

    package func run(on local: LocalDevice) async throws -> Result {
        let known = await local.platform.knownEndpoints(for: .anonymous).map(\.record)
        let name = Array(target.lowercased().utf8)
        let ids = { (record: EndpointRecord) in ["\(record.endpointID)", "\(RemoteSystem.ID(record.systemID))"] }
        let found = known.filter { record in
            Array(record.name.lowercased().utf8) == name
                || name.count >= LocalDevice.shortestID && ids(record).contains { $0.utf8.starts(with: name) }
        }
        guard let record = found.first else {
            let names = known.map { DisplayText.quoted($0.name) }.sorted().joined(separator: ", ")
            let who = known.isEmpty ? "this device is paired with none" : "it is paired with \(names)"
            throw AgentError("notFound", "there is no paired device '\(target)'; \(who)", .notFound)
        }
        guard found.count == 1 else {
            let candidates = found.map { "\($0.endpointID) (\($0.name), \($0.kind))" }
            throw AgentError.ambiguous("several paired devices are called '\(target)'", candidates)
        }
        try await local.platform.unpair(record.endpointID)
        return Result(name: DisplayText.sanitized(record.name), endpoint: "\(record.endpointID)")
    }
}

extension AgentContext {
    /// Runs a closure with this device, which needs no account, and its name. Without one it gets a home before a pairing can be stored there,
    /// and keeps it if there is one then. A signal cancels the closure.
    fileprivate func withPairing<Result: Sendable>(
        named name: String?,
        _ body: @escaping @Sendable (LocalDevice, _ name: String) async throws -> Result
    ) async throws -> Result {
        let device = try anyDevice(named: name)
        let isNew = try home.storedMembership() == nil
        if isNew { try home.store(device) }
        defer {
            // Another command may have joined an account meanwhile.
            if isNew, let now = try? home.storedMembership(), !now.hasRelay { try? home.removeMembership() }
        }
        return try await CancellationSignal.cancelling(failingWith: AgentError.init) {
            try await withPlatform(device, connects: false) { try await body($0, device.name) }
        }
    }
}

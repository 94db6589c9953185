// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import RelayProtocol

/// An own multicast DNS responder and browser. It shares the port with others of this machine, such as Avahi.
final class MulticastService: NearbyService {
    /// How often the interfaces are read where the system does not tell of changes, in milliseconds.
    private static let interval: Int64 = 5_000
    /// The pauses before a socket is opened again, in milliseconds.
    private static let pauses = (first: Int64(5_000), most: Int64(60_000))

    var onInstances: ([MulticastBrowser.Instance], Int) -> Void = { _, _ in }
    var onInterfaces: ([LinkInterface]) -> Void = { _ in }
    var kept: (Int) -> Set<DNSName> = { _ in [] }
    var onQuestion: ((DNSName) -> Void)?

    private let loop: EndpointLoop
    private let names: [String]?
    private let advertisesOnce: Bool
    private let logger: Logger
    private var sockets: [MulticastSocket.Key: MulticastSocket] = [:]
    private var links: [LinkInterface] = []
    private var advertisements = InterfaceAdvertisements()
    private var isWanted = false
    private lazy var changes = ChangeWatch.interfaces(loop, every: Self.interval) { [weak self] in self?.read() }
    private var timer: Scheduled<Void>?
    private var pause = pauses.first
    /// When a socket failed last.
    private var lastFailure: Int64?
    private var isRunning = false
    private var hasReportedProblem = false

    init(_ loop: EndpointLoop, interfaces names: [String]?, advertisesOnce: Bool, logger: Logger) {
        (self.loop, self.names, self.advertisesOnce, self.logger) = (loop, names, advertisesOnce, logger)
    }

    var hearsItself: Bool? {
        let sending = sockets.values.filter(\.hasSent)
        return sending.isEmpty ? nil : sending.contains { $0.hasHeardItself }
    }

    var isOpen: Bool { sockets.values.contains(where: \.isOpen) }

    func start() {
        guard !isRunning else { return }
        isRunning = true
        // Before the first read, so that no change is missed.
        changes.start()
        read()
    }

    private func read() {
        timer?.cancel()
        timer = nil
        guard isRunning else { return }
        let now = NetworkInterfaces.read(names)
        if now.links != links {
            pause = Self.pauses.first
            let old = links
            let known = Set(old.map(\.index))
            links = now.links
            advertisements.startOver()
            let wanted = Dictionary(uniqueKeysWithValues: links.flatMap { link in MulticastSocket.keys(of: link).map { ($0, link) } })
            for (key, socket) in sockets where wanted[key] != socket.link {
                sockets[key] = nil
                advertisements.forget(key.interface)
                // Where an address stays, the neighbours stay, too.
                let stays = wanted[key]?.addresses.contains { socket.link.addresses.contains($0) } ?? false
                if stays { _ = socket.end() } else { socket.close() }
                onInstances([], key.interface)
            }
            for (key, link) in wanted where sockets[key] == nil {
                // A network that is new gets another port first.
                if let device = now.devices[key] { open(key, link, device, isKnown: known.contains(key.interface)) }
            }
            if !old.isEmpty || !links.isEmpty { onInterfaces(links) }
        } else {
            // A socket that could not be opened, or has failed.
            for link in links {
                for key in MulticastSocket.keys(of: link) where sockets[key] == nil {
                    if let device = now.devices[key] { open(key, link, device, isKnown: true) }
                }
            }
        }
    }

    /// Opens what could not be opened, or has failed, again later.
    private func readLater() {
        guard isRunning, timer == nil else { return }
        // What worked for long has failed anew.
        if let lastFailure, loop.now - lastFailure > 2 * Self.pauses.most { pause = Self.pauses.first }
        lastFailure = loop.now
        timer = loop.after(pause) { [weak self] in self?.read() }
        pause = min(2 * pause, Self.pauses.most)
    }

    private func open(_ key: MulticastSocket.Key, _ link: LinkInterface, _ device: NIONetworkDevice, isKnown: Bool) {
        let socket = MulticastSocket(key, link, loop)
        sockets[key] = socket
        socket.onChange = { [weak self] in self?.changed(key) }
        socket.onEnd = { [weak self, weak socket] problem in
            guard let self, let socket, sockets[key] === socket else { return }
            sockets[key] = nil
            changed(key)
            // Another interface may have been silent because of this one.
            if advertisements.startOver() {
                for (key, socket) in sockets { socket.advertise(advertisements.on(key.interface)) }
            }
            // Soon another network may be there, which must not see the same names.
            guard NetworkInterfaces.read(names).links.contains(link) else { return read() }
            readLater()
            guard let problem, !hasReportedProblem else { return }
            hasReportedProblem = true
            logger.warning("the local network cannot be used", metadata: ["interface": "\(link.name)", "error": "\(problem)"])
        }
        socket.onQuestions = { [weak self] questions in
            guard let onQuestion = self?.onQuestion else { return }
            for question in questions { onQuestion(question.name) }
        }
        if advertisesOnce { socket.onNames = { [weak self] in self?.heard($0, at: key.interface) } }
        socket.want(isWanted)
        socket.advertise(isKnown ? advertisements.on(key.interface) : nil)
        socket.open(device)
    }

    private func heard(_ names: Set<DNSName>, at interface: Int) {
        guard advertisements.heard(names, on: interface) else { return }
        for (key, socket) in sockets where key.interface == interface { socket.advertise(nil) }
    }

    /// Both families of an interface show the same instances.
    private func changed(_ key: MulticastSocket.Key) {
        var merged: [DNSName: MulticastBrowser.Instance] = [:]
        for (other, socket) in sockets where other.interface == key.interface {
            for instance in socket.instances {
                let before = merged[instance.name]
                let addresses = Set(instance.addresses + (before?.addresses ?? []))
                merged[instance.name] = .init(
                    name: instance.name,
                    port: instance.port,
                    text: instance.text,
                    addresses: addresses.sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) },
                    isEnding: instance.isEnding || before?.isEnding ?? false
                )
            }
        }
        onInstances(merged.values.sorted { $0.name < $1.name }, key.interface)
        let kept = kept(key.interface)
        for (other, socket) in sockets where other.interface == key.interface { socket.keep(kept) }
    }

    func advertise(_ advertisement: (port: UInt16, text: () -> [[UInt8]])?) {
        advertisements.common = advertisement
        for (key, socket) in sockets { socket.advertise(advertisements.on(key.interface)) }
    }

    func want(_ isWanted: Bool) {
        self.isWanted = isWanted
        for socket in sockets.values { socket.want(isWanted) }
    }

    func ask(_ question: DNSMessage) { for socket in sockets.values { socket.ask(question) } }

    func askAgain() { for socket in sockets.values { socket.askAgain() } }

    func stop() async {
        isRunning = false
        timer?.cancel()
        timer = nil
        links = []
        let open = sockets.values.map { $0.end() } + [changes.stop()]
        sockets = [:]
        for closed in open { try? await closed?.get() }
    }
}

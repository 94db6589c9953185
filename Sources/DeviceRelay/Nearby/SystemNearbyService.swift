// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

#if canImport(dnssd)
import Logging
import NIOCore
import RelayProtocol

/// The system's DNS-SD service. On Apple systems it needs the local network entries in the app's `Info.plist`, and the person's permission.
/// It shows no packets, so it cannot tell whether multicast passes.
final class SystemNearbyService: NearbyService {
    /// How often the interfaces are read, and a daemon is tried that does not serve. In milliseconds.
    private static let interval: Int64 = 5_000
    /// How long to browse after nobody wants instances any more, in milliseconds: the time to live of a host's records.
    private static let afterglow: Int64 = 120_000

    private enum Browsing {
        case off
        case wanted
        /// Nobody wants instances any more.
        case ending(Scheduled<Void>)

        var isOff: Bool { if case .off = self { true } else { false } }
    }

    var onInstances: ([MulticastBrowser.Instance], Int) -> Void = { _, _ in }
    var onInterfaces: ([LinkInterface]) -> Void = { _ in }
    var kept: (Int) -> Set<DNSName> = { _ in [] }
    var onQuestion: ((DNSName) -> Void)?
    var canProbe: Bool { false }
    var hearsItself: Bool? { nil }

    private let loop: EndpointLoop
    private let names: [String]?
    private let logger: Logger
    private var attachments: [Int: Attachment] = [:]
    private var advertisements = InterfaceAdvertisements()
    private var browsing = Browsing.off
    private var timer: Scheduled<Void>?
    private var isRunning = false
    private var hasReportedProblem = false

    /// One interface: a connection for what is advertised there, whose end says goodbye, and one for what is looked for.
    private final class Attachment {
        let link: LinkInterface
        var advertising: DNSServiceConnection?
        var browsing: DNSServiceConnection?
        var browse: DNSServiceConnection.Operation?
        var questions: [DNSQuestion: DNSServiceConnection.Operation] = [:]
        var assembly = InstanceAssembly()

        init(_ link: LinkInterface) { self.link = link }
    }

    init(_ loop: EndpointLoop, interfaces names: [String]?, logger: Logger) {
        (self.loop, self.names, self.logger) = (loop, names, logger)
    }

    var isOpen: Bool { attachments.values.contains { $0.advertising != nil || $0.browsing != nil } }

    func start() {
        guard !isRunning else { return }
        isRunning = true
        read()
    }

    private func read() {
        timer?.cancel()
        guard isRunning else { return }
        let links = NetworkInterfaces.read(names).links
        let old = attachments
        let isChanged = links != old.values.map(\.link).sorted { $0.index < $1.index }
        for (index, attachment) in old where !links.contains(attachment.link) {
            advertisements.forget(index)
            close(attachment)
            attachments[index] = nil
            onInstances([], index)
        }
        for link in links {
            let attachment = attachments[link.index] ?? Attachment(link)
            attachments[link.index] = attachment
            if !browsing.isOff { browse(attachment) }
            // A network that is new gets another port first.
            if old[link.index] != nil { advertise(attachment) }
        }
        if isChanged { onInterfaces(links) }
        timer = loop.after(Self.interval) { [weak self] in self?.read() }
    }

    @discardableResult
    private func close(_ attachment: Attachment) -> [EventLoopFuture<Void>] {
        (attachment.advertising?.close() ?? []) + endBrowsing(attachment)
    }

    private func report(_ problem: DNSServiceConnection.Failed, on link: LinkInterface) {
        guard !hasReportedProblem else { return }
        hasReportedProblem = true
        logger.warning("the local network cannot be used", metadata: ["interface": "\(link.name)", "error": "\(problem.code)"])
    }

    // MARK: Advertising

    func advertise(_ advertisement: (port: UInt16, text: () -> [[UInt8]])?) {
        advertisements.common = advertisement
        for attachment in attachments.values {
            attachment.advertising?.close()
            attachment.advertising = nil
            advertise(attachment)
        }
    }

    private func advertise(_ attachment: Attachment) {
        let link = attachment.link
        guard attachment.advertising == nil, let advertised = advertisements.on(link.index) else { return }
        let addresses = link.addresses.map(\.address)
        let instance = ServiceInstance(advertised.labels, port: advertised.port, text: advertised.text, addresses: addresses)
        do throws(DNSServiceConnection.Failed) {
            let connection = try DNSServiceConnection(loop, interface: link.index) { [weak self, weak attachment] problem in
                attachment?.advertising = nil
                self?.report(problem, on: link)
            }
            do throws(DNSServiceConnection.Failed) {
                try connection.register(instance)
                attachment.advertising = connection
            } catch {
                connection.close()
                throw error
            }
        } catch {
            report(error, on: link)
        }
    }

    // MARK: Browsing

    func want(_ isWanted: Bool) {
        switch (browsing, isWanted) {
        case (.off, false), (.ending, false), (.wanted, true): return
        case (.wanted, false): browsing = .ending(loop.after(Self.afterglow) { [weak self] in self?.endBrowsing() })
        case (.ending(let end), true):
            end.cancel()
            browsing = .wanted
        case (.off, true):
            browsing = .wanted
            for attachment in attachments.values { browse(attachment) }
        }
    }

    private func endBrowsing() {
        browsing = .off
        for attachment in attachments.values { endBrowsing(attachment) }
        for index in attachments.keys { onInstances([], index) }
    }

    /// A search that begins asks the network again, and reports all instances that are known.
    func askAgain() {
        guard !browsing.isOff else { return }
        for attachment in attachments.values {
            if let browse = attachment.browse { attachment.browsing?.end(browse) }
            attachment.browse = nil
            browse(attachment)
        }
    }

    private func browse(_ attachment: Attachment) {
        guard attachment.browse == nil else { return }
        do throws(DNSServiceConnection.Failed) {
            let connection: DNSServiceConnection
            if let open = attachment.browsing { connection = open } else { connection = try connect(attachment) }
            attachment.browsing = connection
            attachment.browse = try connection.browse { [weak attachment, loop] label, isThere in
                guard let attachment, let name = DeviceRelayService.type.child(label) else { return }
                if isThere { attachment.assembly.found(name, at: loop.now) } else { attachment.assembly.lost(name) }
            }
        } catch {
            lose(attachment, error)
        }
    }

    private func connect(_ attachment: Attachment) throws(DNSServiceConnection.Failed) -> DNSServiceConnection {
        try DNSServiceConnection(
            loop,
            interface: attachment.link.index,
            onReplies: { [weak self, weak attachment] in if let attachment { self?.settle(attachment) } },
            onFailure: { [weak self, weak attachment] problem in if let attachment { self?.lose(attachment, problem) } }
        )
    }

    private func lose(_ attachment: Attachment, _ problem: DNSServiceConnection.Failed) {
        endBrowsing(attachment)
        onInstances([], attachment.link.index)
        report(problem, on: attachment.link)
    }

    @discardableResult
    private func endBrowsing(_ attachment: Attachment) -> [EventLoopFuture<Void>] {
        let connection = attachment.browsing
        (attachment.browsing, attachment.browse, attachment.questions, attachment.assembly) = (nil, nil, [:], InstanceAssembly())
        return connection?.close() ?? []
    }

    /// Reports what has changed, and asks for what is missing.
    private func settle(_ attachment: Attachment) {
        guard let connection = attachment.browsing else { return }
        let interface = attachment.link.index
        let before = attachment.assembly.instances
        attachment.assembly.kept = kept(interface)
        let wanted = attachment.assembly.settle()
        for (question, operation) in attachment.questions where !wanted.contains(question) {
            connection.end(operation)
            attachment.questions[question] = nil
        }
        for question in wanted where attachment.questions[question] == nil {
            // One that is refused is tried again after the next reply.
            attachment.questions[question] = try? connection.ask(question) { [weak attachment, loop] data, isThere in
                attachment?.assembly.answered(question, data, isThere: isThere, at: loop.now)
            }
        }
        if attachment.assembly.instances != before { onInstances(attachment.assembly.instances, interface) }
    }

    // MARK: Tests of the network

    func ask(_ question: DNSMessage) {}

    func stop() async {
        timer?.cancel()
        isRunning = false
        if case .ending(let end) = browsing {
            end.cancel()
            browsing = .off
        }
        let closed = attachments.values.flatMap { close($0) }
        attachments = [:]
        for future in closed { try? await future.get() }
    }
}
#endif

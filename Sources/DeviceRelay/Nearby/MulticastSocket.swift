// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOPosix
import RelayProtocol

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The socket for multicast DNS of one interface and family, with its responder and browser. It is used on the event loop.
final class MulticastSocket {
    struct Key: Hashable {
        enum Family: Hashable { case four, six }

        let interface: Int
        let family: Family

        init(interface: Int, _ address: IPAddress) {
            self.interface = interface
            family = address.bytes.count == 4 ? .four : .six
        }
    }

    /// The families of an interface's addresses.
    static func keys(of link: LinkInterface) -> [Key] {
        Array(Set(link.addresses.map { Key(interface: link.index, $0.address) }))
    }

    let link: LinkInterface
    /// Called when the instances may have changed.
    var onChange: () -> Void = {}
    /// Called with the names in each message, if anybody wants them.
    var onNames: ((Set<DNSName>) -> Void)?
    /// Called with the questions of each message.
    var onQuestions: ([DNSQuestion]) -> Void = { _ in }
    var isOpen: Bool { channel != nil }
    /// Called once, when the socket is closed. The error is `nil` if this side has closed it.
    var onEnd: ((any Error)?) -> Void = { _ in }

    private let key: Key
    private let loop: EndpointLoop
    private var channel: (any Channel)?
    private var isClosed = false
    private var responder: MulticastResponder?
    private var browser = MulticastBrowser()
    private var random = SystemRandomNumberGenerator()
    private var packets = KeyedLimiter<IPAddress?>()
    private var legacyAnswers = KeyedLimiter<Bool>()
    private var timer: (time: Int64, scheduled: Scheduled<Void>)?
    private(set) var instances: [MulticastBrowser.Instance] = []
    private(set) var hasSent = false
    private(set) var hasHeardItself = false

    init(_ key: Key, _ link: LinkInterface, _ loop: EndpointLoop) { (self.key, self.link, self.loop) = (key, link, loop) }

    private var group: SocketAddress? {
        try? SocketAddress(ipAddress: key.family == .four ? "224.0.0.251" : "ff02::fb", port: DeviceRelayService.port)
    }

    // MARK: Opening

    func open(_ device: NIONetworkDevice) {
        let bound = NIOLoopBound(self, eventLoop: loop.eventLoop)
        let family = key.family
        let bootstrap = DatagramBootstrap(group: loop.eventLoop)
            .channelOption(.socketOption(.so_reuseaddr), value: 1)
            .channelOption(.socketOption(.init(rawValue: CInt(SO_REUSEPORT))), value: 1)
            .channelOption(.receivePacketInfo, value: true)
            .channelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: DNSMessage.maximumBytes + 1))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if family == .six {
                        try channel.syncOptions?.setOption(ChannelOptions.Types.SocketOption(level: .ipv6, name: .ipv6_v6only), value: 1)
                    }
                    try channel.pipeline.syncOperations.addHandler(MulticastHandler(bound))
                }
            }
        let index = key.interface
        bootstrap.bind(host: family == .four ? "0.0.0.0" : "::", port: DeviceRelayService.port)
            .flatMap { channel in
                Self.prepare(channel, device, index, family, bound.value.group).map { channel }
                    .flatMapErrorThrowing { error in
                        bound.value.closed(error)
                        channel.close(promise: nil)
                        throw error
                    }
            }
            .whenComplete { result in
                switch result {
                case .success(let channel): bound.value.opened(channel)
                case .failure(let error): bound.value.closed(error)
                }
            }
    }

    private static func prepare(
        _ channel: any Channel,
        _ device: NIONetworkDevice,
        _ index: Int,
        _ family: Key.Family,
        _ group: SocketAddress?
    ) -> EventLoopFuture<Void> {
        guard let multicast = channel as? any MulticastChannel, let options = channel as? any SocketOptionProvider, let group else {
            return channel.eventLoop.makeFailedFuture(ChannelError.operationUnsupported)
        }
        let joined = multicast.joinGroup(group, device: device)
        switch family {
        case .four:
            guard let address = IPAddress(device.address)?.bytes, address.count == 4 else {
                return channel.eventLoop.makeFailedFuture(ChannelError.operationUnsupported)
            }
            // A `struct in_addr`.
            let value = address.withUnsafeBytes { $0.loadUnaligned(as: UInt32.self) }
            return joined.flatMap { options.unsafeSetSocketOption(level: .ip, name: .ip_multicast_if, value: value) }
                .flatMap { options.unsafeSetSocketOption(level: .ip, name: .ip_multicast_ttl, value: CInt(255)) }
                .flatMap { options.unsafeSetSocketOption(level: .ip, name: .init(rawValue: CInt(IP_TTL)), value: CInt(255)) }
        case .six:
            return joined.flatMap { options.setIPv6MulticastIF(CUnsignedInt(index)) }
                .flatMap { options.unsafeSetSocketOption(level: .ipv6, name: .ipv6_multicast_hops, value: CInt(255)) }
                .flatMap { options.unsafeSetSocketOption(level: .ipv6, name: .init(rawValue: CInt(IPV6_UNICAST_HOPS)), value: CInt(255)) }
        }
    }

    private func opened(_ channel: any Channel) {
        guard !isClosed else { return channel.close(promise: nil) }
        self.channel = channel
        advance()
    }

    fileprivate func closed(_ error: (any Error)?) {
        guard !isClosed else { return }
        isClosed = true
        timer?.scheduled.cancel()
        (channel, instances) = (nil, [])
        onEnd(error)
    }

    /// Closes the socket without a goodbye: its network is gone.
    func close() {
        let channel = channel
        closed(nil)
        channel?.close(promise: nil)
    }

    /// Says goodbye and closes the socket.
    /// - Returns: When it is closed; `nil` if it is not open.
    func end() -> EventLoopFuture<Void>? {
        if let actions = responder?.end() { perform(actions, asker: nil) }
        let channel = channel
        closed(nil)
        channel?.close(promise: nil)
        return channel?.closeFuture
    }

    // MARK: Use

    /// Both families of an interface advertise the same names.
    func advertise(_ advertised: InterfaceAdvertisements.Advertised?) {
        guard !isClosed else { return }
        guard let advertised else {
            if let actions = responder?.end() { perform(actions, asker: nil) }
            responder = nil
            return
        }
        let addresses = link.addresses.map(\.address)
        let instance = ServiceInstance(advertised.labels, port: advertised.port, text: advertised.text, addresses: addresses)
        if let actions = responder?.update(instance, at: loop.now, using: &random) {
            perform(actions, asker: nil)
        } else {
            responder = MulticastResponder(instance, at: loop.now, using: &random)
        }
        advance()
    }

    func want(_ isWanted: Bool) {
        browser.want(isWanted, at: loop.now, using: &random)
        advance()
    }

    func askAgain() {
        browser.askAgain(at: loop.now, using: &random)
        advance()
    }

    func ask(_ question: DNSMessage) {
        send(question, to: group)
        channel?.flush()
    }

    func keep(_ names: Set<DNSName>) { browser.kept = names }

    // MARK: Messages and time

    fileprivate func receive(_ envelope: AddressedEnvelope<ByteBuffer>) {
        // The system gives each socket the packets of all interfaces on which any socket has joined the group.
        guard !isClosed, envelope.metadata?.packetInfo?.interfaceIndex == key.interface, let source = IPAddress(envelope.remoteAddress),
            // The system sends nothing to port 0, and would close the socket for the attempt.
            envelope.remoteAddress.port != 0, link.isOnLink(source) || source.isLinkLocal, mayTake(source),
            envelope.data.readableBytes <= DNSMessage.maximumBytes,
            let message = try? DNSMessage(decoding: Array(envelope.data.readableBytesView))
        else { return }
        let isLegacy = envelope.remoteAddress.port != DeviceRelayService.port
        // RFC 6762 §6.
        guard !isLegacy || !message.isResponse else { return }
        let isOwn = link.addresses.contains { $0.address == source }
        if isOwn { hasHeardItself = true }
        onNames?(Set(message.questions.map(\.name) + message.records.map(\.name)))
        if !message.isResponse { onQuestions(message.questions) }
        browser.received(message, from: source, at: loop.now)
        if let actions = responder?.received(message, isLegacy: isLegacy, isOwn: isOwn, at: loop.now, using: &random) {
            perform(actions, asker: envelope.remoteAddress)
        }
        advance()
    }

    /// The packets of a neighbour, and of all, before they are read: a flood must leave the event loop to the relay and the sessions.
    private static let packetRate = EventRate(100, per: 1_000)
    private static let allPacketsRate = EventRate(400, per: 1_000)
    private static let legacyRate = EventRate(10, per: 1_000)

    private func mayTake(_ source: IPAddress) -> Bool {
        let now = Milliseconds(clamping: loop.now)
        return packets.take(source, Self.packetRate, now: now) == nil && packets.take(nil, Self.allPacketsRate, now: now) == nil
    }

    private func advance() {
        guard !isClosed, channel != nil else { return }
        let now = loop.now
        for message in browser.tick(at: now) { send(message, to: group) }
        if let actions = responder?.tick(at: now) { perform(actions, asker: nil) }
        channel?.flush()
        let found = browser.instances
        if found != instances {
            instances = found
            onChange()
        }
        schedule()
    }

    private func schedule() {
        guard let next = [browser.nextTime, responder?.nextTime].compactMap(\.self).min() else {
            timer?.scheduled.cancel()
            timer = nil
            return
        }
        guard timer?.time != next else { return }
        timer?.scheduled.cancel()
        timer = (
            next,
            loop.after(next - loop.now) { [weak self] in
                self?.timer = nil
                self?.advance()
            }
        )
    }

    private func perform(_ actions: [MulticastResponder.Action], asker: SocketAddress?) {
        for action in actions {
            switch action {
            case .send(let message, .multicast): send(message, to: group)
            case .send(let message, .asker):
                // The source of a query may be a victim.
                if legacyAnswers.take(true, Self.legacyRate, now: Milliseconds(clamping: loop.now)) == nil { send(message, to: asker) }
            case .renamed: break
            }
        }
        channel?.flush()
    }

    private func send(_ message: DNSMessage, to address: SocketAddress?) {
        guard let channel, let address else { return }
        hasSent = true
        // The system may drop it, or refuse to send at all. Then the socket closes, and is opened again later.
        channel.write(AddressedEnvelope(remoteAddress: address, data: ByteBuffer(bytes: message.encoded())), promise: nil)
    }
}

private final class MulticastHandler: ChannelInboundHandler {
    typealias InboundIn = AddressedEnvelope<ByteBuffer>
    typealias OutboundOut = AddressedEnvelope<ByteBuffer>

    private let socket: NIOLoopBound<MulticastSocket>

    init(_ socket: NIOLoopBound<MulticastSocket>) { self.socket = socket }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { socket.value.receive(unwrapInboundIn(data)) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // Such as an interface that went down. It is opened again later, if it is still there.
        socket.value.closed(error)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        // Such as an interface that cannot send yet. It is opened again later, so it is no problem to report.
        socket.value.closed(nil)
        context.fireChannelInactive()
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// What an endpoint tries on its network together with another one, to find out which hop between them fails.
extension NearbyNetwork {
    /// The system asks for a neighbour for three seconds before it says that there is none.
    private static let dialPatience = Duration.seconds(5)
    /// RFC 6762 §5.2 permits the same question once a second.
    private static let pauseBetweenProbes = Duration.seconds(1)
    private static let probeCount = 2
    /// The way of a packet to this machine itself.
    private static let echoPatience = Duration.milliseconds(300)

    /// The addresses that the other endpoint may dial.
    var namedAddresses: [IPAddress] {
        Array(links.flatMap { $0.addresses.map(\.address) }.filter { !$0.isLinkLocal }.prefix(NearbyReach.maximumNamed))
    }

    /// The own network that an address is in.
    func network(of address: IPAddress) -> IPNetwork? {
        links.flatMap(\.addresses).first { $0.network.contains(address) && $0.address != address }?.network
    }

    // MARK: Multicast

    /// Listens for a packet.
    func hear(_ probe: MulticastProbe, within patience: Duration) async -> Bool {
        let heard = listen(for: probe)
        defer { endListening(for: probe) }
        return await wait(for: heard, patience)
    }

    /// Sends a packet to all, several times.
    /// - Returns: Whether it comes back.
    func say(_ probe: MulticastProbe) async -> Bool {
        let heard = listen(for: probe)
        defer { endListening(for: probe) }
        for count in 1...Self.probeCount {
            service.ask(probe.message)
            if count < Self.probeCount { try? await Task.sleep(for: Self.pauseBetweenProbes) }
        }
        return await wait(for: heard, Self.echoPatience)
    }

    func listen(for probe: MulticastProbe) -> OneShot<Bool> {
        let heard = OneShot<Bool>()
        listening[probe.name] = heard
        service.onQuestion = { [weak self] name in self?.listening[name]?.settle(true) }
        return heard
    }

    func endListening(for probe: MulticastProbe) {
        listening[probe.name] = nil
        if listening.isEmpty { service.onQuestion = nil }
    }

    func wait(for heard: OneShot<Bool>, _ patience: Duration) async -> Bool {
        let timer = loop.after(patience.milliseconds) { heard.settle(false) }
        defer { timer.cancel() }
        return await heard.wait() ?? false
    }

    /// Sends a packet once a second, until the task is cancelled.
    func repeatProbe(_ probe: MulticastProbe) async {
        while !Task.isCancelled {
            service.ask(probe.message)
            try? await Task.sleep(for: Self.pauseBetweenProbes)
        }
    }

    // MARK: Connections

    /// Dials the addresses that another endpoint names, and knocks.
    /// - Returns: A report of each address.
    func dial(_ named: [IPAddress], port: UInt16, of peer: EndpointID) async -> [DialReport] {
        let isPermitted = port >= NearbyReach.firstPort && named.count <= NearbyReach.maximumNamed
        let chosen = Set(isPermitted ? reach.dialled(of: named, on: links, own: service.ownAddresses) : [])
        let transports = chosen.compactMap { address in keys[peer].flatMap { diagnostic(address, port, peer, $0) } }
        let reports = await withTaskGroup { group in
            for transport in transports { group.addTask { await transport.report() } }
            return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
        return named.map { reports[$0] ?? DialReport($0.bytes, .notDialled) }
    }

    private func diagnostic(_ address: IPAddress, _ port: UInt16, _ peer: EndpointID, _ keys: PairKeys) -> DiagnosticDial? {
        guard let socket = try? SocketAddress(packedIPAddress: ByteBuffer(bytes: address.bytes), port: Int(port)) else { return nil }
        var random = SystemRandomNumberGenerator()
        let knock = KnockExchange.Dialer(own: endpoint.id, peer: peer, keys: keys, using: &random)
        let transport = DirectTransport(address: socket, knock: knock, loop: loop.eventLoop, patience: TimeAmount(Self.dialPatience))
        return DiagnosticDial(address: address, transport: transport, patience: Self.dialPatience)
    }

    /// Listens at a port of its own, for the other endpoint's dial: this process may not be the host.
    /// - Returns: `nil` if the system does not let it. The caller closes the listener.
    func openListener() async -> (listener: NearbyListener, port: UInt16)? {
        let listener = NearbyListener(
            loop,
            own: endpoint.id,
            source: { [weak self] in self?.source($0) },
            keys: { [weak self] in self?.keys ?? [:] },
            knocked: { _, transport in
                let channel = transport.channel
                channel.writeAndFlush(ByteBuffer(bytes: [KnockExchange.accepted])).whenComplete { _ in channel.close(promise: nil) }
            }
        )
        let opened = OneShot<UInt16?>()
        listener.open { opened.settle(try? $0.get()) }
        guard let port = await opened.wait() ?? nil else {
            listener.close()
            return nil
        }
        return (listener, port)
    }
}

/// One address that is dialled for a diagnosis.
private struct DiagnosticDial: Sendable {
    let address: IPAddress
    let transport: DirectTransport
    let patience: Duration

    func report() async -> (IPAddress, DialReport) {
        let cause = OneShot<any Error>()
        var transport = transport
        transport.onFailure = { cause.settle($0) }
        let outcome: DialReport.Outcome
        do throws(PeerTransportError) {
            try await transport.connect(timeout: patience) { _ in }.close(promise: nil)
            outcome = .answered
        } catch {
            outcome = if error == .notReached { Self.outcome(cause.value) } else { .notProved }
        }
        return (address, DialReport(address.bytes, outcome, SystemNeighbours.read()[address]))
    }

    private static func outcome(_ error: (any Error)?) -> DialReport.Outcome {
        switch (error as? IOError)?.errnoCode {
        case ECONNREFUSED, ECONNRESET: .refused
        case EPERM, EACCES: .forbidden
        case EHOSTUNREACH, ENETUNREACH, EHOSTDOWN, ENETDOWN, EADDRNOTAVAIL: .unreachable
        default: .timedOut
        }
    }
}

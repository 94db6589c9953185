// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import RelayProtocol

/// The local network of an endpoint: it advertises the endpoint, finds known ones, and connects them without the relay. Only the host process
/// advertises and listens; a client process finds and dials. Nothing is believed before a key proves it.
final class NearbyNetwork {
    /// The time between two advertisements, in milliseconds, which varies by a quarter.
    private static let rotation: Int64 = 3_600_000
    /// How long an attempt waits for the first sign of an endpoint.
    static let searchPatience = Duration.milliseconds(1_500)
    /// How long neighbours may take to answer the first question. They send a record once a second at most.
    private static let answerPatience = Duration.milliseconds(1_300)
    /// How long a command looks for a device before it says that there is no way to it. A lost packet is asked for again.
    private static let longPatience = Duration.seconds(3)
    /// How long an address rests where nothing was reached, and where somebody closed the connection before it was used: the endpoint may
    /// have been busy. In milliseconds.
    private static let rest: Int64 = 60_000
    private static let shortRest: Int64 = 5_000
    /// How often the hour and the presences are checked where the system does not tell that the clock was set, or the machine has slept.
    private static let interval: Int64 = 60_000
    /// How often they are checked in any case: an advertisement of an earlier hour counts no longer, and nothing tells of that.
    private static let longest: Int64 = 600_000
    /// How long to ask on a network that is new, and the pause after a listener that could not be opened.
    private static let arrival: Int64 = 5_000
    /// How long an endpoint counts as reachable after a session, in milliseconds.
    private static let recent: Int64 = 600_000

    let endpoint: EndpointContext
    private let settings: NearbySettings
    private let clock: RelayClock
    let service: any NearbyService
    private lazy var clockChanges = ChangeWatch.clock(loop, every: Self.interval) { [weak self] in self?.tick() }
    private let linkKeys: () -> [EndpointID: AgreementPublicKey]
    /// Called with a connection of a known endpoint.
    var onKnock: (EndpointID, KnockedTransport) -> Void = { $1.channel.close(promise: nil) }
    /// Called before a knock is judged.
    var beforeKnock: () -> Void = {}
    /// Called when an endpoint appears on the network, or is gone.
    var onPresence: (EndpointID, Presence?) -> Void = { _, _ in }
    /// Called when the networks or addresses of this machine have changed.
    var onNetworkChange: () -> Void = {}
    /// Called when this endpoint listens at another place.
    var onListening: () -> Void = {}
    /// Called when an endpoint says where it listens.
    var onTold: (EndpointID) -> Void = { _ in }
    /// Whether endpoints can say through the relay where they listen.
    var isToldAddresses = false
    /// Whether a known endpoint is here.
    var hasNeighbours: Bool { !shown.isEmpty }

    private var seen = NearbyPeers()
    private(set) var links: [LinkInterface] = []
    private(set) var keys: [EndpointID: PairKeys] = [:]
    private var derivedFrom: [EndpointID: AgreementPublicKey] = [:]
    private var shown: [EndpointID: Presence] = [:]
    private var met: [EndpointID: Int64] = [:]
    /// Grows whenever something is seen.
    private let changes = CurrentValue(0)
    /// Where known endpoints are seen. It is kept up to date between `watch` and `endWatching`.
    let sightings = CurrentValue<[NearbySighting]>([])
    private var watchers = 0

    private enum Life: Hashable {
        case stopped
        /// Nobody is to be found, and nobody may find this endpoint.
        case idle
        /// The service runs.
        case running
    }

    private var life = Life.stopped
    private var isHost = false
    private var isRelayAway = true
    private var searches = 0
    private var listener: NearbyListener?
    private var timer: Scheduled<Void>?
    /// What is advertised: since which hour, and until when by the steady clock.
    private var advertised: (hour: UInt32, until: Int64)?
    private var random = SystemRandomNumberGenerator()

    init(
        _ endpoint: EndpointContext,
        clock: RelayClock,
        service: (any NearbyService)? = nil,
        linkKeys: @escaping () -> [EndpointID: AgreementPublicKey]
    ) {
        let settings = endpoint.settings.nearby
        (self.endpoint, self.clock, self.linkKeys, self.settings) = (endpoint, clock, linkKeys, settings)
        self.service = service ?? endpoint.makeNearbyService()
        self.service.onInterfaces = { [weak self] in self?.networkChanged($0) }
        self.service.onInstances = { [weak self] in self?.see($0, $1) }
        self.service.kept = { [weak self] in self?.seen.recognised(on: $0) ?? [] }
    }

    var loop: EndpointLoop { endpoint.loop }
    var hour: UInt32 { clock.hour }
    var isOpen: Bool { service.isOpen }
    /// The names of probes that are awaited. `DoctorService` limits them.
    var listening: [DNSName: OneShot<Bool>] = [:]

    // MARK: Life

    func start(isHost: Bool) {
        self.isHost = self.isHost || isHost
        if life == .stopped {
            life = .idle
            clockChanges.start()
            readAddresses()
        }
        peersChanged()
        // It may have become the host only now.
        if listener == nil { advertise() }
        update()
        tick()
    }

    /// Checks what time changes.
    func tick() {
        timer?.cancel()
        guard life != .stopped else { return }
        if let advertised, loop.now >= advertised.until || !(advertised.hour...advertised.hour &+ 1).contains(hour) { advertise() }
        showPresences()
        let due = [advertised?.until, met.values.min().map { $0 + Self.recent }].compactMap(\.self).min() ?? .max
        timer = loop.after(min(max(0, due - loop.now), Self.longest)) { [weak self] in self?.tick() }
    }

    /// Says goodbye, until `start`. Sessions stay.
    func stop() async {
        guard life != .stopped else { return }
        life = .stopped
        timer?.cancel()
        try? await clockChanges.stop()?.get()
        closeListener()
        // After the next start, each network is a new one.
        links = []
        seen.reset()
        showPresences()
        await service.stop()
    }

    /// The known endpoints may have changed.
    func peersChanged() {
        guard life != .stopped else { return }
        let wanted = linkKeys()
        guard wanted != derivedFrom else { return }
        let own: any LinkKey
        do {
            own = try endpoint.storage.linkKey()
        } catch {
            // Those that are known no more count no more.
            keys = keys.filter { wanted[$0.key] == derivedFrom[$0.key] }
            derivedFrom = derivedFrom.filter { keys[$0.key] != nil }
            seen.recognise(keys)
            return endpoint.logger.warning("the key for direct paths cannot be read", metadata: ["error": "\(error)"])
        }
        keys = wanted.reduce(into: [:]) { keys, peer in
            // A peer whose key did not change keeps its keys.
            keys[peer.key] =
                derivedFrom[peer.key] == peer.value
                ? self.keys[peer.key] : try? PairKeys(own, of: endpoint.id, with: peer.value, of: peer.key)
        }
        derivedFrom = wanted
        seen.recognise(keys)
        showPresences()
        advertise()
        update()
    }

    func relayChanged(isAway: Bool) {
        guard isAway != isRelayAway else { return }
        isRelayAway = isAway
        update()
        tick()
    }

    /// Whether the service has to run, and to ask.
    private func update() {
        guard life != .stopped else { return }
        // An endpoint that knows no other one does not use the network.
        let wantsPeers = searches > 0 || isRelayAway
        guard !keys.isEmpty, isHost || wantsPeers || life == .running else { return }
        service.want(wantsPeers)
        guard life == .idle else { return }
        life = .running
        service.start()
    }

    // MARK: The listener

    /// The service reports itself what was seen on interfaces that are gone or changed. At a network that is new, nothing may link this device
    /// to the one before.
    private func networkChanged(_ links: [LinkInterface]) {
        let before = Dictionary(self.links.map { ($0.index, $0) }) { first, _ in first }
        let isNew = links.contains { link in before[link.index].map { !link.isAttached(like: $0) } ?? true }
        self.links = links
        showPresences()
        onNetworkChange()
        guard isNew else { return tick() }
        seen.networkChanged()
        listen()
        searches += 1
        update()
        loop.after(Self.arrival) { [weak self] in
            self?.searches -= 1
            self?.update()
        }
    }

    private func listen() {
        closeListener()
        guard life == .running, isHost, !links.isEmpty, !keys.isEmpty else { return }
        let listener = NearbyListener(
            loop,
            own: endpoint.id,
            source: { [weak self] in self?.source($0) },
            keys: { [weak self] in
                self?.beforeKnock()
                return self?.keys ?? [:]
            },
            knocked: { [weak self] in self?.onKnock($0, $1) }
        )
        self.listener = listener
        listener.open { [weak self] result in
            guard let self else { return }
            switch result {
            case .success(let port):
                self.port = port
                advertise()
                onListening()
            case .failure(let error):
                endpoint.logger.warning("direct connections cannot be accepted", metadata: ["error": "\(error)"])
                self.listener = nil
                loop.after(Self.arrival) { [weak self] in if self?.listener == nil { self?.listen() } }
            }
        }
    }

    private(set) var port: UInt16?

    private func closeListener() {
        listener?.close()
        (listener, port, advertised) = (nil, nil, nil)
        service.advertise(nil)
    }

    /// Advertises anew, under names that nobody can link with the earlier ones.
    private func advertise() {
        guard isHost, !keys.isEmpty else { return closeListener() }
        guard let port else {
            // The first known endpoint.
            if listener == nil { listen() }
            return
        }
        service.advertise(
            (
                port,
                { [weak self] in
                    guard let self else { return [] }
                    return Advertisement(of: endpoint.id, hour: hour, for: Array(keys.values), using: &random).strings
                }
            )
        )
        let pause = Self.rotation + Int64.random(in: -Self.rotation / 4...Self.rotation / 4, using: &random)
        advertised = (hour, loop.now + pause)
    }

    func source(_ address: IPAddress) -> KnockGate.Source? {
        guard admits(address) else { return nil }
        return KnockGate.Source(address, isOnLink: address.isLinkLocal || links.contains { $0.isOnLink(address) })
    }

    var reach: NearbyReach { settings.reach }

    private func admits(_ address: IPAddress) -> Bool { reach.admits(address, on: links) }

    // MARK: What is seen

    private func see(_ instances: [MulticastBrowser.Instance], _ interface: Int) {
        seen.see(instances, on: interface, at: loop.now)
        showPresences()
        changes.update { $0 += 1 }
    }

    /// An endpoint has proved itself in a direct session.
    func met(_ peer: EndpointID) {
        met[peer] = loop.now
        showPresences()
    }

    private func showPresences() {
        showSightings()
        let now = loop.now
        met = met.filter { now - $0.value < Self.recent && keys[$0.key] != nil }
        let present = seen.present(hour: hour)
        var wanted: [EndpointID: Presence] = [:]
        for peer in present { wanted[peer] = Presence(.discoveringAvailability, .nearby, since: Milliseconds(clamping: clock.time)) }
        for peer in met.keys where present.contains(peer) {
            wanted[peer] = Presence(.available, .nearby, since: Milliseconds(clamping: clock.time))
        }
        for peer in Set(shown.keys).union(wanted.keys) where shown[peer]?.state != wanted[peer]?.state {
            shown[peer] = wanted[peer]
            onPresence(peer, wanted[peer])
        }
    }

    // MARK: Watching

    /// Asks the network until `endWatching`, and keeps `sightings` up to date.
    func watch() {
        watchers += 1
        searches += 1
        update()
        service.askAgain()
        showSightings()
    }

    func endWatching() {
        watchers -= 1
        searches -= 1
        update()
    }

    private func showSightings() {
        guard watchers > 0 else { return }
        let names = Dictionary(links.map { ($0.index, $0.name) }) { first, _ in first }
        let all = seen.places(hour: hour).map { peer, places in
            NearbySighting(
                endpoint: peer,
                addresses: places.map(\.address).uniqued,
                interfaces: places.compactMap { names[$0.interface] }.uniqued
            )
        }.sorted { $0.endpoint < $1.endpoint }
        if all != sightings.value { sightings.update { $0 = all } }
    }

    /// Says again what is shown, to a directory that did not have all endpoints before.
    func repeatPresences() { for (peer, presence) in shown { onPresence(peer, presence) } }

    // MARK: Hints

    /// Where this endpoint accepts direct connections; `nil` if nowhere.
    var ownCandidates: HostCandidates? { port.flatMap { HostCandidates(port: $0, of: links) } }

    /// The keys with an endpoint that may be reached directly.
    func keys(of peer: EndpointID) -> PairKeys? { life == .stopped ? nil : keys[peer] }

    /// An endpoint says where it listens.
    func told(_ candidates: HostCandidates, by peer: EndpointID) {
        guard keys(of: peer) != nil else { return }
        seen.hints.told(candidates, by: peer, at: loop.now)
        changes.update { $0 += 1 }
        onTold(peer)
    }

    /// A session goes to a candidate.
    func worked(_ candidate: NearbyPeers.Candidate, _ peer: EndpointID) {
        let place = AddressHints.Place(address: candidate.address, port: candidate.port)
        // A link-local address says nothing without its link.
        guard !place.address.isLinkLocal, seen.hints.worked(place, for: peer, at: loop.now) else { return }
        let address = JournalTransaction.PeerAddress(endpoint: peer, place: place, time: loop.wallTime)
        endpoint.journal.writeLater { try $0.store(address) }
    }

    private func readAddresses() {
        let (now, wall) = (loop.now, loop.wallTime)
        guard let stored = try? endpoint.journal.read({ try $0.peerAddresses(since: wall - AddressHints.memory) }) else { return }
        for address in stored { seen.hints.worked(address.place, for: address.endpoint, at: now, ago: max(0, wall - address.time)) }
    }

    // MARK: Ways

    /// Whether an endpoint may be dialled now.
    func isSeen(_ peer: EndpointID) -> Bool { life != .stopped && keys[peer] != nil && !candidates(for: peer).isEmpty }

    func candidates(for peer: EndpointID) -> [NearbyPeers.Candidate] {
        seen.candidates(for: peer, hour: hour, at: loop.now, on: links, own: { service.ownAddresses }) { admits($0) }
    }

    /// What is seen once all neighbours had time to answer.
    func look() async -> NearbyView {
        await search(within: Self.answerPatience) { _ in false }
        return NearbyView(
            knowsPeers: !keys.isEmpty,
            interfaces: links.map(\.name),
            instances: seen.count(besides: endpoint.id),
            known: seen.present(hour: hour),
            otherHours: seen.inOtherHour(than: hour),
            isOpen: service.isOpen,
            hearsItself: service.hearsItself
        )
    }

    /// The known endpoints that are seen.
    var present: Set<EndpointID> { seen.present(hour: hour) }

    /// Waits until all known endpoints are seen, or as long as neighbours need to answer.
    func search() async { await search(within: Self.answerPatience) { $0.seen.present(hour: $0.hour).count == $0.keys.count } }

    /// Waits for the first sign of one of these endpoints.
    /// - Returns: Whether there is one.
    func search(for peers: Set<EndpointID>) async -> Bool {
        await search(within: Self.longPatience) { !$0.seen.present(hour: $0.hour).isDisjoint(with: peers) }
        return !seen.present(hour: hour).isDisjoint(with: peers)
    }

    /// Waits for the first sign of an endpoint.
    func search(for peer: EndpointID) async {
        await search(within: Self.searchPatience) { !$0.candidates(for: peer).isEmpty }
    }

    /// Waits until an endpoint may be dialled where it could not before, without asking the network.
    /// - Returns: These addresses.
    func candidates(
        for peer: EndpointID,
        besides known: Set<NearbyPeers.Candidate>,
        until end: ContinuousClock.Instant
    ) async -> [NearbyPeers.Candidate] {
        var revision: UInt64 = 0
        while true {
            let found = candidates(for: peer).filter { !known.contains($0) }
            let left = ContinuousClock.now.duration(to: end)
            guard found.isEmpty, left > .zero, let next = await changes.next(after: revision, within: left) else { return found }
            revision = next
        }
    }

    private func search(within patience: Duration, until isFound: (NearbyNetwork) -> Bool) async {
        searches += 1
        update()
        service.askAgain()
        defer {
            searches -= 1
            update()
        }
        var revision: UInt64 = 0
        let end = ContinuousClock.now + patience
        while !isFound(self) {
            let left = ContinuousClock.now.duration(to: end)
            guard left > .zero, let next = await changes.next(after: revision, within: left) else { return }
            revision = next
        }
    }

    func proved(_ candidate: NearbyPeers.Candidate, _ peer: EndpointID) { seen.proved(candidate, peer) }

    /// - Parameter isCut: Whether the caller had less patience than an attempt may need.
    func failed(_ candidate: NearbyPeers.Candidate, _ peer: EndpointID, _ error: AppServiceError, isCut: Bool) {
        let pause: Int64? =
            switch (error.cause as? PeerTransportError, error.cause as? SessionStartError) {
            // Another way was faster, or the caller has ended.
            case _ where error.code == .cancelled: nil
            // It speaks something else, or proved another key.
            case (.notProved, _), (_, .notAuthentic): NearbyPeers.falsePause
            case (.notReached, _), (.timedOut, _): isCut ? nil : Self.rest
            default: isCut ? nil : Self.shortRest
            }
        if let pause { seen.failed(candidate, peer, at: loop.now, pause: pause) }
    }

    func transport(to peer: EndpointID, at candidate: NearbyPeers.Candidate) -> DirectTransport? {
        guard let keys = keys[peer], let address = SocketAddress(candidate) else { return nil }
        let knock = KnockExchange.Dialer(own: endpoint.id, peer: peer, keys: keys, using: &random)
        return DirectTransport(address: address, knock: knock, loop: loop.eventLoop)
    }
}

extension NearbyNetwork: PathSource {
    func paths(to peer: EndpointID) -> [any PeerPath] {
        guard life != .stopped, keys[peer] != nil else { return [] }
        return [DirectPath(network: self, loop: endpoint.loop, peer: peer, isSeen: !candidates(for: peer).isEmpty)]
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// Makes the anonymous endpoint visible on this network for strangers who want to send something, each after a question to a person. They
/// reach the service `share` and nothing else. It is used on the endpoint's event loop.
final class ReceptionHost {
    /// How long a session may last about which no person is asked, and that brings nothing. A question takes a minute.
    private static let patience = Duration.seconds(75)
    /// How often the progress of a transfer is noted.
    private static let step = Duration.seconds(5)

    private let endpoint: EndpointContext
    private let receiver: ShareReceiver
    private let handler: SharingHandler
    private var offer: ReceptionOffer
    private var listener: VisibleListener?
    private var sessions: [ObjectIdentifier: PeerSession] = [:]
    private var timer: Scheduled<Void>?
    let state = CurrentValue(ReceptionVisibility.State.starting)

    init(_ endpoint: EndpointContext, room: ShareRoom, _ handler: SharingHandler) {
        (self.endpoint, self.handler) = (endpoint, handler)
        // It has places of its own: strangers take none from devices that are known.
        receiver = ShareReceiver(BulkStreams(), room: room)
        offer = ReceptionOffer(at: Milliseconds(clamping: endpoint.loop.now))
    }

    private var loop: EndpointLoop { endpoint.loop }
    private var now: Milliseconds { Milliseconds(clamping: loop.now) }
    private var bound: NIOLoopBound<Weak<ReceptionHost>> { NIOLoopBound(Weak(self), eventLoop: loop.eventLoop) }

    // MARK: Life

    func start() {
        let listener: VisibleListener
        do {
            let connector = try SessionConnector(strangersOf: endpoint, bulk: receiver.streams) { _, _ in .refuse(.init(.notAuthorized)) }
            listener = VisibleListener(endpoint, .receive, connector)
        } catch {
            return fail(DevicePairingError(.failed, "the device's key cannot be used: \(error)", cause: error))
        }
        self.listener = listener
        let (bound, loop) = (bound, loop)
        listener.admit = { peer, opening, source in
            await loop.run(bound) { $0.object?.admit(peer, opening, from: source) } ?? .refuse(AppServiceError(.appUnavailable))
        }
        listener.onSession = { [weak self] in self?.began($0, from: $1) }
        listener.onPlaces = { [weak self] _ in
            guard let self, offer.state == .visible else { return }
            state.update { $0 = .visible }
        }
        listener.onFailure = { [weak self] in self?.fail($0) }
        listener.start()
        changed()
    }

    private func fail(_ error: DevicePairingError) {
        state.update { if !$0.isOver { $0 = .failed(NearShareError(error)) } }
        stop()
    }

    /// The offer may have changed.
    private func changed() {
        timer?.cancel()
        timer = offer.deadline.map { deadline in
            loop.after(deadline.count - loop.now) { [weak self] in
                guard let self else { return }
                offer.tick(at: now)
                changed()
            }
        }
        switch offer.state {
        case .visible: break
        case .finishing:
            // Who was accepted still needs a connection for the content.
            listener?.hide()
            state.update { if !$0.isOver { $0 = .finishing } }
        case .over(let end):
            state.update { if !$0.isOver { $0 = .ended(.init(end)) } }
            state.finish()
            for session in sessions.values { loop.spawn(session) { await $0.shutDown() } }
            if let listener { loop.spawn(listener) { await $0.stop() } }
        }
    }

    func stop() {
        offer.stop()
        changed()
    }

    /// Ends it, and returns when its sockets are closed.
    func shutDown() async {
        stop()
        await listener?.stop()
    }

    // MARK: Strangers

    /// - Returns: Whether a stranger may have one more session.
    func opened(by peer: EndpointID, from source: KnockGate.Source) -> Bool {
        defer { changed() }
        return offer.opened(by: peer, from: source, at: now)
    }

    private func began(_ session: PeerSession, from source: KnockGate.Source) {
        let isTaken = opened(by: session.peer, from: source)
        let id = ObjectIdentifier(session)
        if isTaken { sessions[id] = session }
        loop.spawn(self) { host in
            guard isTaken else { return await session.shutDown() }
            while await within(Self.patience, { await session.ended() }) == nil, !Task.isCancelled,
                host.isWanted(session.peer)
            {}
            await session.shutDown()
            host.sessions[id] = nil
            host.offer.closed(by: session.peer, from: source)
            host.changed()
        }
    }

    func admit(_ peer: EndpointID, _ opening: SessionOpening, from source: KnockGate.Source) -> SessionAdmission {
        let info = VisibleShareTarget.info
        guard opening.appID == info.appID, opening.serviceName == info.name, offer.mayOffer(peer, at: now) else {
            return .refuse(AppServiceError(.notAuthorized))
        }
        return .serve(receiver.service(asking(from: source)), info, AppServiceCaller(stranger: peer))
    }

    /// The app's handler, which is asked within the limits.
    func asking(from source: KnockGate.Source) -> SharingHandler {
        let (bound, loop, handler) = (bound, loop, handler)
        var asking = SharingHandler(
            decide: { offer in
                let id = offer.caller.endpoint
                guard await loop.run(bound, { $0.object?.asks(id, from: source) }) ?? false else { return .decline }
                let answer = await handler.decide(offer)
                let isAccepted = if case .accept = answer { true } else { false }
                await loop.run(bound) { $0.object?.answered(id, isAccepted) }
                return answer
            },
            progress: { offer, values in
                // The app may look only at a part of it.
                async let isNoted: Void = {
                    var next = ContinuousClock.now
                    for await _ in values where ContinuousClock.now >= next {
                        next = .now + Self.step
                        await loop.run(bound) { $0.object?.progressed(offer.caller.endpoint) }
                    }
                }()
                await handler.progress(offer, values)
                await isNoted
            },
            received: handler.received
        )
        asking.ended = handler.ended
        asking.failed = handler.failed
        return asking
    }

    private func asks(_ id: EndpointID, from source: KnockGate.Source) -> Bool {
        defer { changed() }
        return offer.ask(id, from: source, at: now)
    }

    /// Whether a session of a stranger has a reason to stay.
    func isWanted(_ id: EndpointID) -> Bool { offer.isWanted(id, at: now) }

    private func progressed(_ id: EndpointID) { offer.progressed(id, at: now) }

    private func answered(_ id: EndpointID, _ isAccepted: Bool) {
        offer.answered(id, isAccepted: isAccepted, at: now)
        changed()
    }
}

extension ReceptionVisibility.State {
    var isOver: Bool {
        switch self {
        case .starting, .visible, .finishing: false
        case .ended, .failed: true
        }
    }
}

extension ReceptionVisibility.End {
    fileprivate init(_ end: ReceptionOffer.End) {
        self =
            switch end {
            case .timedOut: .timedOut
            case .tooManyRefusals: .tooManyRefusals
            case .stopped: .stopped
            }
    }
}

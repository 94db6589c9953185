// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Logging
import NIOCore
import RelayProtocol

/// Makes the anonymous endpoint visible on this network, until another one has paired with it. It is used on the endpoint's event loop.
final class PairingHost {
    typealias State = DevicePairing.State

    /// How far it is with one endpoint.
    private enum Step: Hashable {
        case offers
        /// The endpoint has proved the code or the secret.
        case proved(EndpointID)
        /// It has introduced itself, and is being stored.
        case stores(EndpointID)
        /// It is stored, and may not have heard of it.
        case stored(EndpointID, PairedDevice)
    }

    /// The connections that are served at once.
    private static let maximumSessions = 4
    /// How long one who connects may take for all, in milliseconds.
    private static let attemptPatience: Int64 = 40_000
    /// How long the other side may take to close the connection once it is paired, in milliseconds.
    private static let closingPatience: Int64 = 2_000

    private let endpoint: EndpointContext
    private let pairings: Pairings
    private var listener: VisibleListener?
    private var places: [PairingLink.Place]?
    private var offer: PairingOffer
    private var failures = 0
    private var step = Step.offers
    private var sessions = 0
    private var connections: UInt64 = 0
    private var timer: Scheduled<Void>?
    private var random = SystemRandomNumberGenerator()
    let state = CurrentValue(State.starting)

    init(_ endpoint: EndpointContext, _ pairings: Pairings) {
        (self.endpoint, self.pairings) = (endpoint, pairings)
        var random = SystemRandomNumberGenerator()
        offer = PairingOffer(own: endpoint.id, at: Milliseconds(clamping: endpoint.loop.now), using: &random)
    }

    private var loop: EndpointLoop { endpoint.loop }
    private var now: Milliseconds { Milliseconds(clamping: loop.now) }

    // MARK: Life

    func start() {
        let listener: VisibleListener
        do {
            listener = VisibleListener(
                endpoint,
                .pair,
                try SessionConnector(strangersOf: endpoint) { _, _ in .refuse(.init(.notAuthorized)) }
            )
        } catch {
            return end(DevicePairingError(.failed, "the device's key cannot be used: \(error)", cause: error))
        }
        self.listener = listener
        let (bound, loop) = (NIOLoopBound(Weak(self), eventLoop: loop.eventLoop), loop)
        listener.admit = { peer, opening, _ in
            await loop.run(bound) { $0.object?.admit(peer, opening) } ?? .refuse(AppServiceError(.appUnavailable))
        }
        listener.onSession = { [weak self] session, _ in self?.began(session) }
        listener.onPlaces = { [weak self] in
            self?.places = $0
            self?.show()
        }
        listener.onFailure = { [weak self] in self?.end($0) }
        listener.start()
        schedule()
    }

    private func show() {
        guard let code = offer.code, let places else { return }
        let link = try? offer.link(to: Array(places.prefix(PairingLink.maximumPlaces)))
        state.update { $0 = .visible(code: code, link: link, failures: failures) }
    }

    private func schedule() {
        timer?.cancel()
        timer = offer.deadline.map { deadline in
            loop.after(deadline.count - loop.now) { [weak self] in
                guard let self else { return }
                perform(offer.tick(at: now, using: &random))
            }
        }
    }

    private func perform(_ actions: [PairingOffer.Action]) {
        for action in actions {
            switch action {
            case .show:
                failures += 1
                show()
            case .paired(let peer):
                step = .proved(peer)
                withdraw()
            case .ended(let why): end(DevicePairingError(why))
            }
        }
        schedule()
    }

    private func end(_ error: DevicePairingError) {
        state.update { if !$0.isOver { $0 = .failed(error) } }
        stop()
    }

    /// Accepts no further endpoint.
    private func withdraw() { listener?.close() }

    func stop() {
        offer.stop()
        timer?.cancel()
        withdraw()
        state.update { if !$0.isOver { $0 = .failed(DevicePairingError(.cancelled, "it was cancelled")) } }
        state.finish()
        if let listener { loop.spawn(listener) { await $0.stop() } }
    }

    /// Ends it, and returns when its sockets are closed.
    func shutDown() async {
        stop()
        await listener?.stop()
    }

    // MARK: Those who connect

    private func began(_ session: PeerSession) {
        let isTaken = sessions < Self.maximumSessions && offer.code != nil
        sessions += 1
        loop.spawn(self) { host in
            defer { host.sessions -= 1 }
            guard isTaken else { return await session.shutDown() }
            let limit = host.loop.after(Self.attemptPatience) { [weak host] in host?.loop.spawn(session) { await $0.shutDown() } }
            _ = await session.ended()
            limit.cancel()
            await session.shutDown()
        }
    }

    private func admit(_ peer: EndpointID, _ opening: SessionOpening) -> SessionAdmission {
        guard opening.appID == PairingCalls.info.appID, opening.serviceName == PairingCalls.info.name else {
            return .refuse(AppServiceError(.notAuthorized))
        }
        return .serve(pairService, PairingCalls.info, AppServiceCaller(stranger: peer))
    }

    private var pairService: AppService {
        let (loop, bound) = (loop, NIOLoopBound(Weak(self), eventLoop: loop.eventLoop))
        return AppService(PairingCalls.info.name) { connection, caller in
            guard let asking = await loop.run(bound, { $0.object?.opened(by: caller.endpoint) }) else { return }
            defer { loop.eventLoop.execute { bound.value.object?.closed(asking) } }
            try await connection.respond(concurrently: 1) { request in
                switch request.message["Type"]?.string {
                case PairingRequest.type:
                    let step = try PairingCalls.decode(PairingRequest.self, request.message)
                    let answer = await loop.run(bound) { $0.object?.answer(step, from: asking) }
                    return try ValueSetEncoder().encode(answer ?? PairingAnswer(.notPairing))
                case PairingCalls.Introduce.type:
                    let call = try PairingCalls.decode(PairingCalls.Introduce.self, request.message)
                    let stored = await loop.run(bound) { $0.object?.introduced(call.introduction, by: caller.endpoint) }
                    guard let result = await stored?.wait() else { throw AppServiceError(.notAuthorized) }
                    return try ValueSetEncoder().encode(try result.get())
                default: throw PairingCalls.invalid
                }
            }
        }
    }

    private func opened(by peer: EndpointID) -> PairingOffer.Caller {
        connections += 1
        return PairingOffer.Caller(peer, connection: connections)
    }

    private func closed(_ connection: PairingOffer.Caller) {
        perform(offer.closed(connection, using: &random))
        switch step {
        case .proved(connection.id):
            end(DevicePairingError(.notReached, "the other device did not finish; make this one visible again"))
        case .stored(connection.id, _): finish()
        case .offers, .proved, .stores, .stored: break
        }
    }

    /// Says that this device is paired.
    private func finish() {
        guard case .stored(_, let device) = step else { return }
        state.update { if !$0.isOver { $0 = .paired(device) } }
        stop()
    }

    private func answer(_ request: PairingRequest, from caller: PairingOffer.Caller) -> PairingAnswer {
        let reply = offer.receive(request, from: caller, at: now, using: &random)
        perform(reply.actions)
        return reply.answer
    }

    /// - Returns: What the other side is told once it is stored here; `nil` if it has proved nothing.
    private func introduced(_ introduction: PairingIntroduction, by peer: EndpointID) -> Stored? {
        guard step == .proved(peer), !state.value.isOver else { return nil }
        step = .stores(peer)
        let stored = Stored()
        loop.spawn(self) { host in
            do throws(DevicePairingError) {
                let own = try host.pairings.introduction()
                host.step = .stored(peer, try await host.pairings.pair(with: peer, introduction))
                stored.settle(.success(own))
                host.loop.after(Self.closingPatience) { [weak host] in host?.finish() }
            } catch {
                host.end(error)
                stored.settle(.failure(error))
            }
        }
        return stored
    }

    private typealias Stored = OneShot<Result<PairingIntroduction, DevicePairingError>>
}

extension DevicePairing.State {
    var isOver: Bool {
        switch self {
        case .starting, .visible: false
        case .paired, .failed: true
        }
    }
}

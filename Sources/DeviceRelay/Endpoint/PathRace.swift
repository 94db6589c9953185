// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// A way to a peer: through the relay, or over the local network.
protocol PeerPath {
    var kind: PathPresences.Path { get }
    /// How long less direct ways wait for this one, in milliseconds.
    var headStart: Int64 { get }

    /// Finds a transport, and starts a link over it. Cancelling the task gives it up.
    func connect(within timeout: Duration, starting starter: any LinkStarter) async throws(AppServiceError) -> EstablishedLink
}

/// Starts links over transports. It is no closure: a stored one would not run on the event loop.
protocol LinkStarter {
    /// The event loop of the transport; `nil` for any.
    var eventLoop: (any EventLoop)? { get }

    /// - Parameter timeout: The time that the caller still waits.
    func start(
        over transport: any PeerTransport,
        on kind: PathPresences.Path,
        within timeout: Duration
    ) async throws(AppServiceError) -> EstablishedLink
}

/// What is established with a peer.
enum EstablishedLink: Sendable {
    case session(PeerSession)
    /// A session has moved to this path.
    case moved
    case bulk(BulkStream)

    /// Whether it carries no session.
    var isBulk: Bool { if case .bulk = self { true } else { false } }

    /// Ends it, because another one is used.
    fileprivate func abandon() async {
        switch self {
        case .session(let session): await session.shutDown()
        case .moved: break
        case .bulk(let stream): stream.close()
        }
    }
}

/// A source of ways to peers.
protocol PathSource {
    /// The ways to a peer that may be tried now.
    func paths(to peer: EndpointID) -> [any PeerPath]
}

/// Establishes something with a peer, such as a session: over the first of several paths that succeeds.
final class PathRace {
    private let loop: EndpointLoop
    private let paths: [any PeerPath]
    private let end: ContinuousClock.Instant
    private let starter: any LinkStarter
    private let outcome = CurrentValue<Result<EstablishedLink, AppServiceError>?>(nil)
    private var race: LinkRace
    private var attempts: [Int: Task<Void, Never>] = [:]
    private var results: [Int: Result<EstablishedLink, AppServiceError>] = [:]
    private var winner: Int?
    private var timer: Scheduled<Void>?

    /// - Parameters:
    ///   - paths: The most general one last: its error is reported if all fail.
    ///   - starter: Starts the links.
    init(_ paths: [any PeerPath], until end: ContinuousClock.Instant, on loop: EndpointLoop, starting starter: any LinkStarter) {
        (self.loop, self.paths, self.end, self.starter) = (loop, paths, end, starter)
        let delays = paths.indices.map { index in paths[..<index].map(\.headStart).max() ?? 0 }
        race = LinkRace(delays: delays, now: loop.now)
    }

    /// Establishes the link. Call it once.
    func link() async throws(AppServiceError) -> EstablishedLink {
        perform(race.start(now: loop.now))
        guard let result = await outcome.first(where: { $0 != nil }) ?? nil else {
            perform(race.end())
            timer?.cancel()
            // A path may have won at the same moment.
            if case .success(let link)? = outcome.value { await link.abandon() }
            throw AppServiceError(.cancelled)
        }
        return try result.get()
    }

    private func perform(_ actions: [LinkRace.Action]) {
        for action in actions {
            switch action {
            case .open(let path): open(path)
            case .close(let path): attempts[path]?.cancel()
            case .wait(let time):
                timer?.cancel()
                timer = loop.after(time - loop.now) { [self] in perform(race.timePassed(now: loop.now)) }
            case .win(let path):
                winner = path
                settle(results[path] ?? .failure(AppServiceError(.cancelled)))
            case .fail(let path): settle(results[path] ?? .failure(AppServiceError(.cancelled)))
            case .noPath: settle(.failure(AppServiceError(.remoteSystemUnavailable, message: "there is no way to the device now")))
            }
        }
    }

    private func open(_ index: Int) {
        attempts[index] = loop.spawn(self) { race in
            do throws(AppServiceError) {
                let timeout = ContinuousClock.now.duration(to: race.end)
                let link = try await race.paths[index].connect(within: timeout, starting: race.starter)
                race.results[index] = .success(link)
                race.perform(race.race.opened(path: index))
                // Another one was first.
                if race.winner != index { await link.abandon() }
            } catch {
                race.results[index] = .failure(error)
                race.perform(race.race.failed(path: index, now: race.loop.now))
            }
        }
        // The endpoint has ended.
        if attempts[index] == nil { perform(race.failed(path: index, now: loop.now)) }
    }

    private func settle(_ result: Result<EstablishedLink, AppServiceError>) {
        timer?.cancel()
        timer = nil
        outcome.update { $0 = result }
    }
}

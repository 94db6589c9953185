// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// A way to a peer over which a session can be established.
protocol SessionPath {
    /// How long after the start of a race the path is tried at the earliest, in milliseconds.
    var delay: Int64 { get }

    /// Establishes a session. Cancelling the task gives it up.
    func open(by connector: SessionConnector, within timeout: Duration) async throws(AppServiceError) -> PeerSession
}

/// A source of ways to peers: the relay's tunnels, or the local network.
protocol PathSource {
    /// The ways to a peer that may be tried now.
    func paths(to peer: EndpointID) -> [any SessionPath]
}

/// One attempt to establish a session with a peer: over the first of several paths that succeeds.
final class SessionDial {
    private let loop: EndpointLoop
    private let paths: [any SessionPath]
    private let connector: SessionConnector
    private let end: ContinuousClock.Instant
    private let outcome = CurrentValue<Result<PeerSession, AppServiceError>?>(nil)
    private var race: LinkRace
    private var attempts: [Int: Task<Void, Never>] = [:]
    private var results: [Int: Result<PeerSession, AppServiceError>] = [:]
    private var timer: Scheduled<Void>?

    /// - Parameter paths: The most general one last: its error is reported if all fail.
    init(_ paths: [any SessionPath], by connector: SessionConnector, until end: ContinuousClock.Instant, on loop: EndpointLoop) {
        (self.loop, self.paths, self.connector, self.end) = (loop, paths, connector, end)
        race = LinkRace(delays: paths.map(\.delay), now: loop.now)
    }

    /// Establishes the session. Call it once.
    func session() async throws(AppServiceError) -> PeerSession {
        perform(race.start(now: loop.now))
        guard let result = await outcome.first(where: { $0 != nil }) ?? nil else {
            perform(race.end())
            timer?.cancel()
            throw AppServiceError(.cancelled)
        }
        return try result.get()
    }

    private func perform(_ actions: [LinkRace.Action]) {
        for action in actions {
            switch action {
            case .open(let path): open(path)
            case .close(let path): close(path)
            case .wait(let time):
                timer?.cancel()
                timer = loop.after(time - loop.now) { [self] in perform(race.timePassed(now: loop.now)) }
            case .win(let path), .fail(let path): settle(results[path] ?? .failure(AppServiceError(.cancelled)))
            case .noPath: settle(.failure(AppServiceError(.remoteSystemUnavailable, message: "there is no way to the device now")))
            }
        }
    }

    private func open(_ path: Int) {
        attempts[path] = loop.spawn(self) { dial in
            do throws(AppServiceError) {
                let timeout = ContinuousClock.now.duration(to: dial.end)
                dial.results[path] = .success(try await dial.paths[path].open(by: dial.connector, within: timeout))
                dial.perform(dial.race.opened(path: path))
            } catch {
                dial.results[path] = .failure(error)
                dial.perform(dial.race.failed(path: path, now: dial.loop.now))
            }
        }
        // The endpoint has ended.
        if attempts[path] == nil { perform(race.failed(path: path, now: loop.now)) }
    }

    private func close(_ path: Int) {
        attempts[path]?.cancel()
        guard case .success(let session)? = results[path] else { return }
        loop.spawn(self) { _ in await session.shutDown() }
    }

    private func settle(_ result: Result<PeerSession, AppServiceError>) {
        timer?.cancel()
        timer = nil
        outcome.update { $0 = result }
    }
}

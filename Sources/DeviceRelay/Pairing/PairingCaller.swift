// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol
import RelayStorage

/// Pairs the anonymous endpoint with another one that shows a code or a link. It is used on the endpoint's event loop.
final class PairingCaller {
    enum Proof: Sendable {
        case code(PairingCode)
        case link(PairingLink)
    }

    /// The addresses that are tried, and the time for each.
    private static let maximumCandidates = 8
    private static let patience = Duration.seconds(3)
    /// The time for one answer.
    private static let answerPatience = Duration.seconds(10)

    private let endpoint: EndpointContext
    private let pairings: Pairings
    private var random = SystemRandomNumberGenerator()

    init(_ endpoint: EndpointContext, _ pairings: Pairings) { (self.endpoint, self.pairings) = (endpoint, pairings) }

    func pair(at candidates: [NearbyPeers.Candidate], by proof: Proof) async throws(DevicePairingError) -> PairedDevice {
        let session = try await session(at: candidates, proof)
        do {
            let device = try await pair(over: session, by: proof)
            await session.shutDown()
            return device
        } catch {
            await session.shutDown()
            throw error
        }
    }

    private func session(at candidates: [NearbyPeers.Candidate], _ proof: Proof) async throws(DevicePairingError) -> PeerSession {
        let links = NetworkInterfaces.read(endpoint.settings.nearby.interfaces).links
        guard !links.isEmpty else { throw DevicePairingError.noNetwork }
        let admitted = candidates.filter { NearbyReach.local.admits($0.address, on: links) }.prefix(Self.maximumCandidates)
        let connector: SessionConnector
        do {
            connector = try SessionConnector(pairing: endpoint) { _, _ in .refuse(AppServiceError(.notAuthorized)) }
        } catch {
            throw DevicePairingError(.failed, "the device's key cannot be used: \(error)", cause: error)
        }
        let expected: EndpointID? = if case .link(let link) = proof { link.id } else { nil }
        guard expected != endpoint.id else { throw DevicePairingError(PairingError.ownDevice) }
        var last = DevicePairingError(.notReached, "the other device is not reached on this network; are both on the same one?")
        for candidate in admitted {
            guard let address = SocketAddress(candidate) else { continue }
            let knock = KnockExchange.Dialer(own: endpoint.id, peer: expected ?? endpoint.id, keys: nil, using: &random)
            let transport = DirectTransport(address: address, knock: knock, loop: endpoint.loop.eventLoop)
            do throws(AppServiceError) {
                return try await connector.open(to: expected, over: transport, timeout: Self.patience)
            } catch {
                if error.code == .cancelled { throw DevicePairingError(error) }
                if error.cause as? PeerTransportError == .closedEarly || error.cause as? PeerTransportError == .notProved {
                    last = DevicePairingError(PairingError.notPairing)
                }
            }
        }
        throw last
    }

    private func pair(over session: PeerSession, by proof: Proof) async throws(DevicePairingError) -> PairedDevice {
        let introduction: PairingIntroduction
        do {
            let connection = try await session.open(PairingCalls.info, timeout: Self.answerPatience)
            defer { connection.close() }
            switch proof {
            case .code(let code): try await prove(code, to: session.peer, over: connection)
            case .link(let link):
                let caller = try SecretPairing.Caller(link: link, own: endpoint.id, peer: session.peer)
                try caller.finish(try await connection.call(caller.opening, timeout: Self.answerPatience))
            }
            let introduce = PairingCalls.Introduce(introduction: try pairings.introduction())
            introduction = try await connection.call(introduce, timeout: Self.answerPatience)
        } catch let error as PairingError {
            throw DevicePairingError(error)
        } catch let error as AppServiceError {
            throw DevicePairingError(error)
        } catch let error as DevicePairingError {
            throw error
        } catch let error as StorageError {
            throw DevicePairingError(.storageFailed, "the attempt cannot be stored: \(error)", cause: error)
        } catch {
            throw DevicePairingError(.failed, "\(error)", cause: error)
        }
        return try await pairings.pair(with: session.peer, introduction)
    }

    private func prove(_ code: PairingCode, to peer: EndpointID, over connection: AppServiceConnection) async throws {
        // With it, the other side would only lose the attempt.
        guard try !endpoint.storage.isUsed(code, now: endpoint.loop.wallTime) else { throw Self.triedBefore }
        var caller = try CodePairing.Caller(code: code, own: endpoint.id, peer: peer, at: now, using: &random)
        var request: PairingRequest? = caller.opening
        while let next = request {
            // From here on the other side learns something of the code.
            if next.step == .reveal, next.round == 0, try !endpoint.storage.use(code, now: endpoint.loop.wallTime) {
                throw Self.triedBefore
            }
            let left = Duration.milliseconds(max(0, caller.deadline.count - now.count))
            let answer = try await connection.call(next, timeout: left)
            switch caller.receive(answer, at: now, using: &random) {
            case .call(let more): request = more
            case .paired: request = nil
            case .failed(let error): throw error
            }
        }
    }

    private static let triedBefore = DevicePairingError(
        .wrongCode,
        "this code was tried before, and an attempt uses it up; type what the other device shows now, and if it is the same, make it visible there again"
    )

    private var now: Milliseconds { Milliseconds(clamping: endpoint.loop.now) }
}

extension SessionConnector {
    /// Sessions of endpoints that do not know each other yet.
    init(pairing endpoint: EndpointContext, admit: @escaping SessionAdmitter) throws {
        self.init(
            certificate: try EndpointCertificate(endpoint.identityKey),
            limits: endpoint.settings.limits.all,
            timing: endpoint.settings.sessionTiming,
            memory: SessionMemory(limits: endpoint.settings.limits.all),
            admit: admit
        )
    }
}

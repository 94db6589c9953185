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
        let dialer: VisibleDialer
        do {
            dialer = try VisibleDialer(endpoint)
        } catch {
            throw DevicePairingError(.failed, "the device's key cannot be used: \(error)", cause: error)
        }
        let expected: EndpointID? = if case .link(let link) = proof { link.id } else { nil }
        do throws(VisibleDialer.Failure) {
            return try await dialer.session(at: candidates, expecting: expected).session
        } catch {
            throw DevicePairingError(error)
        }
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

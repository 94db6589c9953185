// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// The way to an endpoint over the local network: to the first of its addresses where it proves itself.
struct DirectPath: PeerPath {
    /// How often other addresses are tried after all have failed.
    private static let rounds = 4

    let network: NearbyNetwork
    let loop: EndpointLoop
    let peer: EndpointID
    let isSeen: Bool

    var kind: PathPresences.Path { .nearby }
    var headStart: Int64 { isSeen ? 150 : 0 }

    func connect(within timeout: Duration, starting starter: any LinkStarter) async throws(AppServiceError) -> EstablishedLink {
        let start = ContinuousClock.now
        let end = start + timeout
        var last = AppServiceError(.remoteSystemUnavailable, message: "the device is not on this network")
        // Copies of its advertisement may come before it.
        for _ in 0..<Self.rounds {
            if network.candidates(for: peer).isEmpty, ContinuousClock.now < start + NearbyNetwork.searchPatience {
                await network.search(for: peer)
            }
            let candidates = network.candidates(for: peer)
            guard !candidates.isEmpty, ContinuousClock.now < end else { break }
            let later = LaterPath(path: self, known: Set(candidates), end: min(end, start + NearbyNetwork.searchPatience))
            do throws(AppServiceError) {
                return try await PathRace([later] + paths(candidates), until: end, on: loop, starting: starter).link()
            } catch {
                guard error.code != .cancelled else { throw error }
                last = error
            }
        }
        throw last
    }

    fileprivate func paths(_ candidates: [NearbyPeers.Candidate]) -> [any PeerPath] {
        candidates.enumerated().map { AddressPath(network: network, peer: peer, candidate: $1, index: $0) }
    }
}

/// The way to addresses that become known while others are tried, which may be old.
private struct LaterPath: PeerPath {
    let path: DirectPath
    let known: Set<NearbyPeers.Candidate>
    let end: ContinuousClock.Instant

    var kind: PathPresences.Path { .nearby }
    var headStart: Int64 { 0 }

    func connect(within timeout: Duration, starting starter: any LinkStarter) async throws(AppServiceError) -> EstablishedLink {
        let until = ContinuousClock.now + timeout
        let candidates = path.network.isToldAddresses ? await path.network.candidates(for: path.peer, besides: known, until: end) : []
        guard !candidates.isEmpty else { throw AppServiceError(Task.isCancelled ? .cancelled : .remoteSystemUnavailable) }
        return try await PathRace(path.paths(candidates), until: until, on: path.loop, starting: starter).link()
    }
}

/// One address of an endpoint.
private struct AddressPath: PeerPath {
    let network: NearbyNetwork
    let peer: EndpointID
    let candidate: NearbyPeers.Candidate
    let index: Int

    var kind: PathPresences.Path { .nearby }
    /// The pause between two attempts is 100 ms (RFC 8305 §5).
    var headStart: Int64 { 100 * Int64(index + 1) }

    func connect(within timeout: Duration, starting starter: any LinkStarter) async throws(AppServiceError) -> EstablishedLink {
        guard let transport = network.transport(to: peer, at: candidate) else { throw AppServiceError(.remoteSystemUnavailable) }
        let start = ContinuousClock.now
        do throws(AppServiceError) {
            let link = try await starter.start(over: transport, on: kind, within: timeout)
            network.proved(candidate, peer)
            if !link.isBulk { network.worked(candidate, peer) }
            return link
        } catch {
            network.failed(candidate, peer, error, isCut: start.duration(to: .now) >= timeout)
            throw error
        }
    }
}

extension SocketAddress {
    /// A link-local address needs its interface.
    init?(_ candidate: NearbyPeers.Candidate) {
        guard let address = try? SocketAddress(packedIPAddress: ByteBuffer(bytes: candidate.address.bytes), port: Int(candidate.port))
        else {
            return nil
        }
        guard case .v6(let six) = address, candidate.address.isLinkLocal else {
            self = address
            return
        }
        var scoped = six.address
        // It follows family, port, flow label and address (RFC 3493 §3.3).
        withUnsafeMutableBytes(of: &scoped) { $0.storeBytes(of: UInt32(clamping: candidate.interface), toByteOffset: 24, as: UInt32.self) }
        self = SocketAddress(scoped)
    }
}

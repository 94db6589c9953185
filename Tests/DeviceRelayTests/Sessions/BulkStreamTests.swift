// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import RelayProtocol
import Testing

@testable import DeviceRelay

/// Streams beside a session, over a relay's tunnels.
@Suite(.timeLimit(.minutes(5))) struct BulkStreamTests {
    private let relay: TestTunnelRelay
    private let (opener, target): (SessionSide, SessionSide)

    init() async throws {
        relay = try await TestTunnelRelay()
        (opener, target) = (try SessionSide(), try SessionSide())
    }

    /// Opens a stream with a token, and says how the target's side ended.
    private func open(_ token: BulkToken, as side: SessionSide) async -> (
        Result<BulkStream, AppServiceError>, Result<PeerLink, AppServiceError>
    ) {
        let tunnel = relay.tunnel()
        async let accepted: Result<PeerLink, AppServiceError> = {
            do throws(AppServiceError) {
                return .success(try await target.connector.accept(over: tunnel.target, timeout: .seconds(10)) { _ in true })
            } catch {
                return .failure(error)
            }
        }()
        do throws(AppServiceError) {
            return (.success(try await side.connector.openBulk(token, to: target.id, over: tunnel.opener)), await accepted)
        } catch {
            return (.failure(error), await accepted)
        }
    }

    @Test func streamReachesWhoExpectsIt() async throws {
        try await target.bulk.expecting(from: opener.id) { expected in
            let (opened, accepted) = await open(expected.token, as: opener)
            guard case .success(.bulk) = accepted else {
                Issue.record("\(accepted)")
                return
            }
            let (near, far) = (try opened.get(), try #require(await expected.stream()))
            #expect(near.peer == target.id && far.peer == opener.id)
            let content = ByteBuffer(bytes: (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0) })
            let isThere = OneShot<Void>()
            async let received = far.use { inbound, _ in
                var all = ByteBuffer()
                for try await bytes in inbound where all.readableBytes < content.readableBytes {
                    all.writeImmutableBuffer(bytes)
                    if all.readableBytes == content.readableBytes { break }
                }
                isThere.settle(())
                return all
            }
            try await near.use { _, outbound in
                try await outbound.write(content)
                _ = await isThere.wait()
            }
            let arrived = try await received
            #expect(arrived == content)
        }
        await relay.stop()
    }

    /// The async channel of an open stream does not permit to be dropped.
    @Test func streamThatNobodyUsesIsClosed() async throws {
        let opened = await target.bulk.expecting(from: opener.id) { expected in
            let (opened, accepted) = await open(expected.token, as: opener)
            if case .failure(let error) = accepted { Issue.record(error) }
            return opened
        }
        // The transfer has ended without its stream.
        try await opened.get().use { inbound, _ in for try await _ in inbound { break } }
        await relay.stop()
    }

    /// The content arrives with the token while the server still checks the client.
    @Test func contentBehindTheTokenIsKept() async throws {
        let tunnel = relay.tunnel()
        let isWritten = OneShot<Void>()
        try await target.bulk.expecting(from: opener.id) { expected in
            async let accepted = target.connector.accept(over: tunnel.target, timeout: .seconds(10)) { _ in await isWritten.wait() != nil }
            let near = try await opener.connector.openBulk(expected.token, to: target.id, over: tunnel.opener)
            let content = ByteBuffer(bytes: [UInt8](repeating: 7, count: 1_000))
            let isThere = OneShot<Void>()
            async let sent: Void = near.use { _, outbound in
                try await outbound.write(content)
                isWritten.settle(())
                _ = await isThere.wait()
            }
            _ = try await accepted
            let far = try #require(await expected.stream())
            let arrived = try await far.use { inbound, _ in
                var all = ByteBuffer()
                for try await bytes in inbound {
                    all.writeImmutableBuffer(bytes)
                    if all.readableBytes >= content.readableBytes { break }
                }
                return all
            }
            isThere.settle(())
            try await sent
            #expect(arrived == content)
        }
        await relay.stop()
    }

    /// A token of nobody, of another peer, of an end that is over, and one that was used.
    @Test func unexpectedStreamsAreClosed() async throws {
        func isRefused(_ token: BulkToken, _ side: SessionSide) async {
            let (opened, accepted) = await open(token, as: side)
            guard case .failure(let error) = accepted else {
                Issue.record("\(accepted)")
                return
            }
            #expect(error.code == .authenticationError)
            // The opener sees the end of the stream, at once or with its first read.
            guard case .success(let stream) = opened else { return }
            try? await stream.use { inbound, _ in for try await _ in inbound {} }
        }
        await isRefused(BulkToken(), opener)
        let other = try SessionSide()
        var old: BulkToken?
        try await target.bulk.expecting(from: opener.id) { expected in
            old = expected.token
            await isRefused(expected.token, other)
            let (opened, _) = await open(expected.token, as: opener)
            await isRefused(expected.token, opener)
            try await opened.get().use { _, _ in }
            try await #require(expected.stream()).use { _, _ in }
        }
        await isRefused(try #require(old), opener)
        await relay.stop()
    }
}

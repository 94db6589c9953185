// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import NIOEmbedded
import NIOTLS
import RelayProtocol
import Testing

@testable import DeviceRelay

/// What time does to a session, on a loop whose clock the test turns. That loop is for one thread, so no connection is opened here: a
/// service would run on another.
@Suite struct SessionClockTests {
    /// A session without TLS.
    final class Harness {
        let channel = EmbeddedChannel()
        private var decoder = SessionFrameDecoder()
        let sessions = Shared<[PeerSession]>([])
        let failures = Shared<[SessionStartError]>([])

        /// - Parameter canMove: Whether the session may go on over another stream.
        init(canMove: Bool = false) throws {
            let (sessions, failures) = (sessions, failures)
            let id = EndpointID(P256SigningKey.sampleRelay.publicKey)
            let environment = SessionHandler.Environment(
                role: .client,
                limits: Limits(),
                memory: SessionMemory(),
                admit: { _, _ in .refuse(AppServiceError(.appServiceUnavailable)) },
                peer: { id },
                startTimeout: .seconds(15),
                movable: canMove ? MovableSessions() : nil
            )
            let handler = SessionStream(environment) { result in
                switch result {
                case .success(.session(let session)): sessions.withLock { $0.append(session) }
                case .success(.moved): Issue.record("a session was moved")
                case .success(.bulk): Issue.record("a session has become a bulk stream")
                case .failure(let error): failures.withLock { $0.append(error) }
                }
            }
            try channel.pipeline.syncOperations.addHandler(handler)
            try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        }

        func shakeHands() {
            channel.pipeline.fireUserInboundEventTriggered(TLSUserEvent.handshakeCompleted(negotiatedProtocol: "device-relay/1"))
        }

        func receive(_ frame: SessionFrame) throws {
            var bytes = ByteBuffer()
            SessionFrameEncoder.write(frame, to: &bytes)
            try channel.writeInbound(bytes)
        }

        /// What has been sent since the last time.
        func sent() throws -> [SessionFrame] {
            while let bytes = try channel.readOutbound(as: ByteBuffer.self) { decoder.append(bytes) }
            var frames: [SessionFrame] = []
            while let frame = try decoder.next() { frames.append(frame) }
            return frames
        }
    }

    static let settings = SessionFrame(.settings(SessionSettings()))

    @Test func idleSessionEnds() throws {
        let harness = try Harness()
        harness.shakeHands()
        #expect(try harness.sent() == [Self.settings])
        try harness.receive(Self.settings)
        let session = try #require(harness.sessions.value.first)
        harness.channel.embeddedEventLoop.advanceTime(by: .seconds(44))
        #expect(try harness.sent().isEmpty)
        harness.channel.embeddedEventLoop.advanceTime(by: .seconds(1))
        #expect(try harness.sent() == [SessionFrame(.ping(1))])
        try harness.receive(SessionFrame(.pong(1)))
        harness.channel.embeddedEventLoop.advanceTime(by: .seconds(14))
        #expect(!session.hasEnded)
        harness.channel.embeddedEventLoop.advanceTime(by: .seconds(1))
        #expect(try harness.sent() == [SessionFrame(.goaway(SessionGoAway(lastConnection: .session)))])
        #expect(session.hasEnded)
        #expect(!harness.channel.isActive)
        #expect(harness.failures.value.isEmpty)
    }

    @Test func aSessionWaitsForAStream() throws {
        let harness = try Harness(canMove: true)
        harness.shakeHands()
        guard case .settings(let own) = try harness.sent().first?.payload else {
            Issue.record("no settings")
            return
        }
        #expect(own.features == ["move"] && own.session != nil)
        var settings = SessionSettings()
        settings.features = ["move"]
        try harness.receive(SessionFrame(.settings(settings)))
        let session = try #require(harness.sessions.value.first)
        harness.channel.close(promise: nil)
        harness.channel.embeddedEventLoop.run()
        #expect(!session.hasStream)
        harness.channel.embeddedEventLoop.advanceTime(by: .seconds(29))
        #expect(!session.hasEnded)
        harness.channel.embeddedEventLoop.advanceTime(by: .seconds(1))
        #expect(session.hasEnded)
    }

    @Test func missingHandshakeTimesOut() throws {
        for isHalfway in [false, true] {
            let harness = try Harness()
            if isHalfway { harness.shakeHands() }
            harness.channel.embeddedEventLoop.advanceTime(by: .seconds(14))
            #expect(harness.failures.value.isEmpty)
            harness.channel.embeddedEventLoop.advanceTime(by: .seconds(1))
            #expect(harness.failures.value == [.timedOut])
            #expect(!harness.channel.isActive)
        }
    }

    @Test func missingALPNIsRejected() throws {
        let harness = try Harness()
        harness.channel.pipeline.fireUserInboundEventTriggered(TLSUserEvent.handshakeCompleted(negotiatedProtocol: nil))
        #expect(harness.failures.value == [.notAuthentic])
        #expect(!harness.channel.isActive)
    }

    @Test func firstFrameOtherThanSettingsIsRejected() throws {
        let harness = try Harness()
        harness.shakeHands()
        try harness.receive(SessionFrame(.ping(1)))
        #expect(harness.sessions.value.isEmpty)
        #expect(harness.failures.value == [.broken])
        #expect(!harness.channel.isActive)
    }
}

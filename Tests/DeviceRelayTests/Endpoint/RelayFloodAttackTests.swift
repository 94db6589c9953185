// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch
import NIOCore
import RelayProtocol
import RelayTesting
import Testing

@testable import DeviceRelay

/// A hostile relay sends faster than the device can do what follows. What waits in the device is bounded, and nothing is lost.
@Suite(.timeLimit(.minutes(30)), .disabled(if: Sweep.isQuick, "its floods take long")) struct RelayFloodAttackTests {
    /// Blocks the thread of a journal, as a disk does that does not answer.
    private final class StalledDisk: Sendable {
        private let end = DispatchSemaphore(value: 0)

        init(_ journal: Journal) {
            journal.write { [end] _ in
                end.wait()
            } completion: { _ in
            }
        }

        func recover() { end.signal() }
    }

    private func connected() async throws -> (ScriptedDevice, LocalEndpoint) {
        let device = try await ScriptedDevice()
        // While nothing is read or written, a slow machine must not find the connection silent: the flood ends with it.
        device.relay.script.withLock { $0.intervals = .init(ping: 600_000, dead: 1_800_000) }
        try await device.platform.accounts.add(device.account)
        try await device.enumerated()
        return (device, try device.endpoint())
    }

    private func ids(_ count: Int) -> [CommandID] {
        var (ids, random) = (CommandIDGenerator(), SystemRandomNumberGenerator())
        return (0..<count).map { _ in ids.next(now: 1_800_000_000_000, using: &random) }
    }

    /// Waits until the endpoint leaves what comes to the network, or has read all of it.
    /// - Parameter flood: The bytes that the relay sends, at least.
    /// - Returns: The bytes of messages whose work is not done.
    private func unfinished(_ endpoint: LocalEndpoint, of flood: Int) async throws -> Int {
        while true {
            let state = await endpoint.readAhead
            if state.isFull || state.bytes >= flood { return state.bytes }
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    /// Each outcome brings a reply of the largest size.
    @Test func outcomesWaitInTheNetworkWhileTheDiskStalls() async throws {
        let (device, endpoint) = try await connected()
        let disk = StalledDisk(endpoint.journal)
        let ids = ids(96)
        let reply = Blob<BlobKinds.Reply>([UInt8](repeating: 7, count: 256 << 10))
        for id in ids {
            device.relay.send(
                .commandStatus(.init(id: id, status: .attestedByTarget(Blob([UInt8](repeating: 1, count: 64)), reply: reply)))
            )
        }
        // In base64.
        #expect(try await unfinished(endpoint, of: ids.count * (256 << 10) * 4 / 3) < 2 * ReadAhead.limit)
        disk.recover()
        // No command has these ids, so each outcome is acknowledged and forgotten.
        var acknowledged: Set<CommandID> = []
        while acknowledged.count < ids.count {
            acknowledged.insert(
                try await device.relay.next { if case .commandAcknowledge(let statement) = $0 { statement.id } else { nil } }
            )
        }
        #expect(acknowledged == Set(ids))
        await device.end()
    }

    /// The same for small messages of any kind.
    @Test func smallMessagesWaitInTheNetworkWhileTheDiskStalls() async throws {
        let (device, endpoint) = try await connected()
        let disk = StalledDisk(endpoint.journal)
        let ids = ids(20_000)
        for id in ids { device.relay.send(.commandStatus(.init(id: id, status: .step(.delivered)))) }
        for id in ids { device.relay.send(.commandCancel(.init(sender: endpoint.id, id: id))) }
        #expect(try await unfinished(endpoint, of: 2 * ids.count * ReadAhead.overhead) < 2 * ReadAhead.limit)
        disk.recover()
        device.relay.send(.commandStatus(.init(id: ids[0], status: .attestedByRelay(.expired))))
        let last = try await device.relay.next { if case .commandAcknowledge(let statement) = $0 { statement.id } else { nil } }
        #expect(last == ids[0])
        await device.end()
    }

    /// The device has to acknowledge, and the network takes nothing.
    @Test func statementsAreBoundedWhileTheNetworkTakesNothing() async throws {
        let (device, endpoint) = try await connected()
        let network = try await endpoint.stalledNetwork()
        let ids = ids(32_000)
        for id in ids { device.relay.send(.commandStatus(.init(id: id, status: .attestedByRelay(.expired)))) }
        // Each pause ends when the work is done, unless the network takes nothing.
        let most = ReadAhead.limit / ReadAhead.overhead
        while await !endpoint.waitsForNetwork, await endpoint.waitingMessages < most { try await Task.sleep(for: .milliseconds(5)) }
        #expect(await endpoint.waitingMessages < most)
        network.recover()
        var acknowledged = 0
        while acknowledged < ids.count {
            acknowledged += try await device.relay.next { if case .commandAcknowledge = $0 { 1 } else { nil } }
        }
        await device.end()
    }
}

/// Keeps what is written, as a socket does whose buffers are full. Real sockets also lose what comes the other way then, and the flood with it.
private final class StalledNetwork: ChannelOutboundHandler, @unchecked Sendable {
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    // Used by the event loop alone.
    private var kept: [(ByteBuffer, EventLoopPromise<Void>?)]? = []
    private var context: ChannelHandlerContext?
    private let loop: any EventLoop

    init(_ loop: any EventLoop) { self.loop = loop }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard kept != nil else { return context.write(data, promise: promise) }
        kept?.append((unwrapOutboundIn(data), promise))
    }

    func recover() {
        loop.execute { [self] in
            for (bytes, promise) in kept ?? [] { context?.write(wrapOutboundOut(bytes), promise: promise) }
            kept = nil
            context?.flush()
        }
    }
}

extension LocalEndpoint {
    fileprivate var readAhead: ReadAhead { control.readAhead }
    fileprivate var waitsForNetwork: Bool { !control.waitingForNetwork.isEmpty }
    fileprivate var waitingMessages: Int { control.waitingForRoom.count }

    fileprivate func stalledNetwork() async throws -> StalledNetwork {
        let channel = try #require(control.dialer.socket?.channel)
        let network = StalledNetwork(channel.eventLoop)
        try await channel.pipeline.addHandler(network, position: .first).get()
        return network
    }
}

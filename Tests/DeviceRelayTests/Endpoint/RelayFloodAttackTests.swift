// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch
import RelayProtocol
import Testing

@testable import DeviceRelay

/// A hostile relay sends faster than the device can do what follows. What waits in the device is bounded, and nothing is lost.
@Suite(.timeLimit(.minutes(30))) struct RelayFloodAttackTests {
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

    /// The device has to acknowledge, and the relay takes nothing.
    @Test func statementsForARelayThatReadsNothingAreBounded() async throws {
        let (device, endpoint) = try await connected()
        try await device.relay.stopReading()
        // Their acknowledgements fill the buffers of the sockets, which hold up to 4 MiB.
        let ids = ids(60_000)
        for id in ids { device.relay.send(.commandStatus(.init(id: id, status: .attestedByRelay(.expired)))) }
        // Each pause ends when the work is done, unless the network takes nothing.
        let most = 2 * ReadAhead.limit / ReadAhead.overhead
        while await !endpoint.waitsForNetwork, await endpoint.waitingMessages < most { try await Task.sleep(for: .milliseconds(5)) }
        #expect(await endpoint.waitingMessages < most)
        try await device.relay.readAgain()
        var acknowledged = 0
        while acknowledged < ids.count {
            acknowledged += try await device.relay.next { if case .commandAcknowledge = $0 { 1 } else { nil } }
        }
        await device.end()
    }
}

extension LocalEndpoint {
    fileprivate var readAhead: ReadAhead { control.readAhead }
    fileprivate var waitsForNetwork: Bool { !control.waitingForNetwork.isEmpty }
    fileprivate var waitingMessages: Int { control.waitingForRoom.count }
}

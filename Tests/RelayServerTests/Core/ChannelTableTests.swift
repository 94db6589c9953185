// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Testing

@testable import RelayServer

@Suite struct ChannelTableTests {
    static let devices = (0..<3).map { _ in TestDevice(subject: "me") }

    private func channel(_ id: UInt64, _ device: Int = 0, role: EndpointMessage.Hello.Role = .host)
        throws -> AccountChannel
    {
        let hello = try Self.devices[device].hello("account", role: role)
        return AccountChannel(ChannelID(id), hello, in: AccountID("account"), registrations: [])
    }

    @Test func hostIsTheOldestHostChannelThatHasNotLeft() throws {
        var table = ChannelTable()
        let (client, first, second) = (try channel(1, role: .client), try channel(2), try channel(3))
        let endpoint = first.endpoint
        table.add(client, at: 5)
        #expect(table.host(of: endpoint) == nil)
        table.add(first, at: 10)
        table.add(second, at: 20)
        #expect(table.channels(of: endpoint) == [client, first, second])
        #expect(table.host(of: endpoint) == first && table.hostSince(of: endpoint) == 10)
        #expect(table.requestLeaving(first.id) == .no)
        #expect(table.requestLeaving(first.id) == .requested)
        // It gets commands until its leaving is stored.
        #expect(table.host(of: endpoint) == first)
        let isOpen = table.left(first.id)
        #expect(isOpen)
        #expect(table.requestLeaving(first.id) == .stored)
        #expect(table.host(of: endpoint) == second && table.hostSince(of: endpoint) == 20)
        table.remove(second)
        #expect(table.host(of: endpoint) == nil && !table.isEmpty)
        #expect(table.requestLeaving(second.id) == nil)
        let isSecondOpen = table.left(second.id)
        #expect(!isSecondOpen)
        table.remove(first)
        table.remove(client)
        #expect(table.isEmpty && table.endpoints.isEmpty)
    }

    /// Compares the table with a list of channels.
    @Test(arguments: 1...20 as ClosedRange<UInt64>) func randomWalk(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var (table, open, watching, last): (ChannelTable, [AccountChannel], Set<ChannelID>, UInt64) = (
            ChannelTable(), [], [], 0
        )
        for _ in 0..<200 {
            switch Int.random(in: 0..<5, using: &random) {
            case 0, 1:
                last += UInt64.random(in: 1...3, using: &random)
                let new = try channel(
                    last,
                    Int.random(in: 0..<3, using: &random),
                    role: .random(using: &random) ? .host : .client
                )
                table.add(new, at: 0)
                open.append(new)
            case 2:
                guard let gone = open.randomElement(using: &random) else { continue }
                table.remove(gone)
                open.removeAll { $0 == gone }
                watching.remove(gone.id)
            case 3:
                let id = open.randomElement(using: &random)?.id ?? ChannelID(9_999)
                table.watch(id)
                if open.contains(where: { $0.id == id }) { watching.insert(id) }
            default:
                guard let id = open.randomElement(using: &random)?.id else { continue }
                table.unwatch(id)
                watching.remove(id)
            }
            #expect(table.watchers == watching.sorted(), "seed \(seed)")
            #expect(table.all == open.sorted { $0.id < $1.id }, "seed \(seed)")
            for device in Self.devices {
                #expect(
                    table.channels(of: device.id) == open.filter { $0.endpoint == device.id },
                    "seed \(seed)"
                )
                #expect(
                    table.host(of: device.id) == open.first { $0.endpoint == device.id && $0.role == .host },
                    "seed \(seed)"
                )
            }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import RelayTesting
import Testing

/// An unapproved device tries to make another one unreachable for known devices.
@Suite(.timeLimit(.minutes(10))) struct NewcomerAttackTests {
    private struct Home {
        let relayd: RelaydProcess
        let phone, pc: WireEndpoint
        let newcomers: [WireEndpoint]
    }

    private func home(newcomers count: Int) async throws -> Home {
        let relayd = try await RelaydProcess(arguments: ["--limit", "commandsPerSecond=1000"])
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
        let endpoints = ["Phone", "PC"].map { WireEndpoint($0, at: relayd) } + (0..<count).map { WireEndpoint("New \($0)", at: relayd) }
        for endpoint in endpoints {
            try await endpoint.join(try await relayd.run("invite", "Anna"))
            try await endpoint.connect()
        }
        return Home(relayd: relayd, phone: endpoints[0], pc: endpoints[1], newcomers: Array(endpoints.dropFirst(2)))
    }

    @Test func newcomersCannotTakeAllTunnelsOfADevice() async throws {
        let home = try await home(newcomers: 5)
        var exceeded: [String?] = []
        var opened = 0
        for number in 0..<64 {
            let newcomer = home.newcomers[number % home.newcomers.count]
            switch try await newcomer.request({ .tunnelOpen(.init(ref: $0, target: home.pc.id, timeout: 300_000)) }) {
            case .ok: opened += 1
            case .failure(let failure):
                #expect(failure.code == .limitExceeded)
                exceeded.append(failure.limit?.name)
            case let answer: throw WireEndpoint.Unexpected(message: "\(answer)")
            }
        }
        #expect(opened == 8)
        #expect(Set(exceeded) == ["tunnelsPerNewcomer", "tunnelsOfNewcomers"])
        // A known device has room, and itself a bound.
        var known = 0
        while case .ok = try await home.phone.request({ .tunnelOpen(.init(ref: $0, target: home.pc.id, timeout: 300_000)) }) { known += 1 }
        #expect(known == 8)
        #expect(try await home.relayd.stop() == 0)
    }

    @Test func newcomersCannotFillTheMailboxOfADisconnectedDevice() async throws {
        let home = try await home(newcomers: 2)
        await home.pc.disconnect()
        var (accepted, refused) = (0, Set<String?>())
        for number in 1...500 as ClosedRange<UInt64> {
            for newcomer in home.newcomers {
                switch try await newcomer.send(try newcomer.launch("film:\(number)", on: home.pc, number: number)) {
                case .ok: accepted += 1
                case .failure(let failure):
                    #expect(failure.code == .mailboxFull)
                    refused.insert(failure.limit?.name)
                case let answer: throw WireEndpoint.Unexpected(message: "\(answer)")
                }
            }
        }
        #expect(accepted == 250)
        #expect(refused == ["mailboxCommandsPerSender"])
        let launch = try home.phone.launch("film:1", on: home.pc, number: 1)
        guard case .ok = try await home.phone.send(launch) else { throw WireEndpoint.Unexpected(message: "a known device has no room") }
        // The target gets its mailbox when it reconnects, and can end all commands in it.
        try await home.pc.connect()
        _ = try await home.pc.handleNext()
        #expect(try await home.relayd.stop() == 0)
    }
}

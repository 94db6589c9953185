// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Endpoints get every limit that can be set, and the relay enforces its own limits.
@Suite(.timeLimit(.minutes(10))) struct LimitEffectTests {
    @Test func welcomeContainsEveryLimit() async throws {
        let set = Limit.allCases.map { ($0, $0.defaultValue + 1) }
        let relayd = try await RelaydProcess(arguments: set.flatMap { ["--limit", "\($0.rawValue)=\($1)"] })
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
        let phone = WireEndpoint("Phone", at: relayd)
        try await phone.join(try await relayd.run("invite", "Anna"))
        try await phone.connect()
        guard case .welcome(let welcome) = try await phone.greet(role: .host).1 else { throw WireEndpoint.Unexpected(message: "rejected") }
        for (limit, value) in set { #expect(welcome.limits[limit] == value, "\(limit)") }
        #expect(try await relayd.stop() == 0)
    }

    /// What comes of more than a limit allows.
    private enum Effect: Hashable {
        /// An error that names a limit.
        case named(String?)
        case closed(UInt16?)
        /// Nothing: what it bounds, the relay does not see.
        case endpointsOwn
    }

    private struct World {
        let relayd: RelaydProcess
        let phone, pc, tv, watch, spare, late: WireEndpoint

        /// Asks for more than the limit.
        func exceed(_ limit: Limit) async throws -> Effect {
            switch limit {
            case .controlFrameBytes:
                let channel = try await phone.open(role: .client)
                try await channel.send(opcode: 1, Array(repeating: 0x20, count: 30_001))
                return .closed(await channel.closeCode())
            case .controlFrameBytesBeforeWelcome:
                let channel = try await TestWebSocket.open(try await TestSocket(port: relayd.port), host: relayd.host)
                _ = try await channel.challenge()
                try await channel.send(opcode: 1, Array(repeating: 0x20, count: 8_001))
                return .closed(await channel.closeCode())
            case .commandBytes: return try await launch(on: pc, numbers: 1...1, padding: 5_000)
            case .replyBytes:
                let id = phone.nextCommandID()
                let answer = try await phone.request {
                    .commandResult(
                        .init(ref: $0, sender: pc.id, id: id, receipt: Blob([1]), reply: Blob(Array(repeating: 0, count: 65)))
                    )
                }
                return .named(answer.exceeded)
            case .mailboxCommands:
                _ = try await launch(on: pc, numbers: 2...4, padding: 0)
                return try await launch(on: pc, numbers: 1...2, padding: 0, from: tv)
            case .mailboxBytes:
                _ = try await launch(on: tv, numbers: 1...1, padding: 2_000)
                return try await launch(on: tv, numbers: 1...1, padding: 3_500, from: pc)
            case .mailboxCommandsPerSender: return try await launch(on: watch, numbers: 1...4, padding: 0)
            case .mailboxBytesPerSender: return try await launch(on: tv, numbers: 2...2, padding: 2_000)
            case .endpointsPerAccount: return try await rejected(late)
            case .endpointsEverPerAccount:
                // One that is revoked makes room among the endpoints, and none among all that ever were.
                guard case .ok = try await phone.revoke(spare) else { break }
                return try await rejected(late)
            case .appRegistrationBytes: return try await publish { $0.attributes = ["a": String(repeating: "a", count: 600)] }
            case .appRegistrationsBytes:
                let padding = ["a": String(repeating: "a", count: 200)]
                _ = try await publish("org.example.one") { $0.attributes = padding }
                return try await publish("org.example.two") { $0.attributes = padding }
            case .schemesPerApp: return try await publish { $0.schemes = [.init(name: "a"), .init(name: "b")] }
            case .servicesPerApp: return try await publish { $0.services = [.init(name: "a"), .init(name: "b")] }
            case .attributesPerApp: return try await publish { $0.attributes = ["a": "", "b": ""] }
            case .serviceNameBytes: return try await publish { $0.services = [.init(name: "abcde")] }
            case .displayNameCharacters: return try await publish { $0.displayName = "123456789" }
            case .commandsPerSecond:
                let id = phone.nextCommandID()
                return try await repeated { .commandCancel(.init(ref: $0, id: id)) }
            case .watchesPerSecond: return try await repeated { .watch(.init(ref: $0)) }
            case .publishesPerSecond: return try await repeated { .unpublish(.init(ref: $0, appID: "a")) }
            case .tunnelOpensPerSecond: return try await repeated { .tunnelOpen(.init(ref: $0, target: late.id, timeout: 1)) }
            case .helloSeconds:
                let channel = try await TestWebSocket.open(try await TestSocket(port: relayd.port), host: relayd.host)
                return .closed(await channel.closeCode())
            case .tunnelsPerPair: return try await open(5, from: phone, to: pc)
            case .tunnelsPerNewcomer: return try await open(3, from: tv, to: pc)
            case .tunnelsOfNewcomers: return try await open(2, from: watch, to: pc)
            case .messageBytes, .uriBytes, .sessionsPerEndpoint, .connectionsPerSession, .assemblyBytesPerSession,
                .assemblyBytesPerEndpoint, .requestsPerConnection, .requestsPerSession, .accountBytes:
                return .endpointsOwn
            }
            return .named(nil)
        }

        private func launch(
            on target: WireEndpoint,
            numbers: ClosedRange<UInt64>,
            padding: Int,
            from sender: WireEndpoint? = nil
        ) async throws -> Effect {
            let sender = sender ?? phone
            var last: String?
            for number in numbers {
                let command = try sender.launch("film:" + String(repeating: "a", count: padding), on: target, number: number)
                last = try await sender.send(command).exceeded
            }
            return .named(last)
        }

        private func rejected(_ endpoint: WireEndpoint) async throws -> Effect {
            do {
                try await endpoint.connect()
            } catch is WireEndpoint.Unexpected {
                guard case .rejected(let rejected) = try await endpoint.greet(role: .host).1 else { return .named(nil) }
                return .named(rejected.limit?.name)
            }
            return .named(nil)
        }

        private func open(_ count: Int, from opener: WireEndpoint, to target: WireEndpoint) async throws -> Effect {
            var last: String?
            for _ in 0..<count {
                last = try await opener.request { .tunnelOpen(.init(ref: $0, target: target.id, timeout: 300_000)) }.exceeded
            }
            return .named(last)
        }

        private func publish(_ appID: String = "a", _ change: (inout AppRegistration) -> Void) async throws -> Effect {
            var registration = try phone.registration(appID).payload
            registration.schemes = []
            change(&registration)
            let signed = try Signed(registration, key: phone.identityKey)
            return .named(try await phone.request { .publish(.init(ref: $0, registration: Blob(signed.encoded))) }.exceeded)
        }

        /// Until it is too often.
        private func repeated(_ make: (RequestRef) throws -> EndpointMessage) async throws -> Effect {
            for _ in 0..<1_000 {
                if let name = try await phone.request(make).exceeded { return .named(name) }
            }
            return .named(nil)
        }
    }

    @Test func accountBytesAreLimited() async throws {
        let relayd = try await RelaydProcess(arguments: ["--limit", "accountBytes=4000"])
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
        let (phone, pc) = (WireEndpoint("Phone", at: relayd), WireEndpoint("PC", at: relayd))
        for endpoint in [phone, pc] { try await endpoint.join(try await relayd.run("invite", "Anna")) }
        try await phone.connect()
        try await pc.connect(role: .client)
        var exceeded: [String?] = []
        for number in 1...2 {
            let command = try phone.launch("film:" + String(repeating: "a", count: 2_000), on: pc, number: UInt64(number))
            exceeded.append(try await phone.send(command).exceeded)
        }
        #expect(exceeded == [nil, "accountBytes"])
        #expect(try await relayd.stop() == 0)
    }

    @Test func everyLimitOfTheRelayIsEnforced() async throws {
        let small: [Limit: Int] = [
            .controlFrameBytes: 30_000, .controlFrameBytesBeforeWelcome: 8_000, .commandBytes: 4_096, .replyBytes: 64,
            .mailboxCommands: 4, .mailboxCommandsPerSender: 3, .mailboxBytes: 6_000, .mailboxBytesPerSender: 3_500,
            .endpointsPerAccount: 5, .endpointsEverPerAccount: 5, .tunnelsPerPair: 4, .tunnelsPerNewcomer: 2, .tunnelsOfNewcomers: 3,
            .appRegistrationBytes: 600,
            .appRegistrationsBytes: 900, .schemesPerApp: 1, .servicesPerApp: 1, .attributesPerApp: 1, .serviceNameBytes: 4,
            .displayNameCharacters: 8, .commandsPerSecond: 2, .publishesPerSecond: 2, .watchesPerSecond: 2, .tunnelOpensPerSecond: 2,
            .helloSeconds: 10,
        ]
        let relayd = try await RelaydProcess(arguments: small.flatMap { ["--limit", "\($0.rawValue)=\($1)"] })
        _ = try await relayd.start()
        _ = try await relayd.run("account", "add", "Anna")
        let endpoints = ["Phone", "PC", "TV", "Watch", "Spare", "Late"].map { WireEndpoint($0, at: relayd) }
        for endpoint in endpoints { try await endpoint.join(try await relayd.run("invite", "Anna")) }
        // Clients do not drain their mailboxes.
        try await endpoints[0].connect()
        for endpoint in endpoints[1...4] { try await endpoint.connect(role: .client) }
        let world = World(
            relayd: relayd,
            phone: endpoints[0],
            pc: endpoints[1],
            tv: endpoints[2],
            watch: endpoints[3],
            spare: endpoints[4],
            late: endpoints[5]
        )
        // What fills the account leaves no room for the others' tests.
        for limit in Limit.allCases where limit != .accountBytes {
            let expected: Effect =
                switch limit {
                case .controlFrameBytes, .controlFrameBytesBeforeWelcome: .closed(1009)
                case .helloSeconds: .closed(1008)
                default: small[limit] == nil ? .endpointsOwn : .named(limit.rawValue)
                }
            let effect = try await world.exceed(limit)
            #expect(effect == expected, "\(limit)")
        }
        #expect(try await relayd.stop() == 0)
    }
}

extension RelayMessage {
    /// The limit that an error names.
    fileprivate var exceeded: String? { if case .failure(let failure) = self { failure.limit?.name } else { nil } }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import RelayProtocol
import RelayTesting
import Testing

/// Two people at one relay never see, change or disturb each other's data, with any message.
@Suite(.timeLimit(.minutes(10))) struct TwoAccountsTests {
    @Test func noMessageReachesAnotherAccount() async throws {
        let relayd = try await RelaydProcess(arguments: [
            "--limit", "publishesPerSecond=10000", "--limit", "commandsPerSecond=10000", "--limit", "tunnelOpensPerSecond=10000",
        ])
        _ = try await relayd.start()
        for name in ["Anna", "Bert"] { _ = try await relayd.run("account", "add", name) }
        let (phone, pc, eve) = (WireEndpoint("Phone", at: relayd), WireEndpoint("PC", at: relayd), WireEndpoint("Eve", at: relayd))
        for endpoint in [phone, pc] {
            try await endpoint.join(try await relayd.run("invite", "Anna"))
            try await endpoint.connect()
        }
        try await eve.join(try await relayd.run("invite", "Bert"))
        try await eve.connect()
        #expect(eve.account != phone.account)
        let loose = WireEndpoint("Loose", at: relayd)
        try await loose.join(try await relayd.run("invite", "Anna"), isBound: false)
        let commands = try await begin(phone, pc)
        let before = try DatabaseDump(of: relayd, besides: eve)
        #expect(before.rows.count { $0.hasPrefix("commands ") } == 3)

        for role in [EndpointMessage.Hello.Role.host, .client] {
            let intrusion = Intrusion(phone: phone, pc: pc, eve: eve, role: role, commands: commands, stolenToken: loose.token)
            for kind in Intrusion.Kind.allCases {
                for (message, answer) in try intrusion.attempts(kind) {
                    #expect(Intrusion.Kind(message) == kind)
                    await eve.disconnect()
                    try await eve.connect(role: role)
                    try await eve.check(message, answer)
                    for owner in [phone, pc] { #expect(try await owner.receivedMessages() == [], "\(kind) as \(role)") }
                    #expect(try DatabaseDump(of: relayd, besides: eve) == before, "\(kind) as \(role)")
                }
            }
        }

        // Everything still works.
        for endpoint in [phone, pc] { try await endpoint.connect() }
        for number in 2...3 { #expect(try await pc.handleNext() == .launch(.init(uri: try LaunchURI("film:\(number)")))) }
        for command in commands { #expect(try await phone.outcome(of: command, target: try pc.record().payload) == .succeeded) }
        #expect(try await relayd.stop() == 0)
    }

    /// A watched app, a voucher, and three launches of which one has its outcome.
    private func begin(_ phone: WireEndpoint, _ pc: WireEndpoint) async throws -> [SealedCommand] {
        for endpoint in [phone, pc] {
            guard case .ok = try await endpoint.publish("org.example.player") else {
                throw WireEndpoint.Unexpected(message: "not published")
            }
            guard case .ok = try await endpoint.request({ .watch(.init(ref: $0)) }) else {
                throw WireEndpoint.Unexpected(message: "not watching")
            }
        }
        let voucher = try Signed(Voucher(by: phone.id, for: try pc.record(), time: 1), key: phone.identityKey)
        try await phone.request { .endpointApprove(.init(ref: $0, endpoint: pc.id, voucher: Blob(voucher.encoded))) }
        var commands: [SealedCommand] = []
        for number in 1...3 as ClosedRange<UInt64> {
            let command = try phone.launch("film:\(number)", on: pc, number: number)
            guard case .ok = try await phone.send(command) else { throw WireEndpoint.Unexpected(message: "not accepted") }
            commands.append(command)
        }
        _ = try await pc.handleNext()
        for endpoint in [phone, pc] { _ = try await endpoint.receivedMessages() }
        return commands
    }
}

extension WireEndpoint {
    /// Sends a message, and checks all messages that arrive: only the answer, and nothing of the other account.
    fileprivate func check(_ message: EndpointMessage, _ expected: Intrusion.Answer) async throws {
        let kind = Intrusion.Kind(message)
        switch expected {
        case .closed(let code):
            try await send(message)
            #expect(await closeCode() == code)
            return
        case .none: try await send(message)
        case .served:
            guard case .ok = try await ask(message) else {
                Issue.record("\(kind) was not served")
                return
            }
        case .refused(let codes):
            let answer = try await ask(message)
            guard case .failure(let failure) = answer, codes.contains(failure.code) else {
                Issue.record("\(kind) was answered \(answer)")
                return
            }
        }
        for event in try await receivedMessages() {
            switch event {
            case .endpointAdded(let event): #expect(event.endpoint == id)
            case .endpointUpdated(let event): #expect(event.endpoint == id)
            // The second one is of its own registration.
            case .enumerationCompleted, .notificationsState: break
            default: Issue.record("\(kind) brought \(event)")
            }
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

/// Nothing of one account can be seen, changed or guessed from another.
@Suite struct IsolationTests {
    /// Everything that is stored of an account.
    private struct Stored: Hashable {
        var endpoints: [EndpointRow]
        var registrations: [RegistrationRow]
        var vouchers: [[UInt8]]
        var commands: [MailboxCommand?]
    }

    private func stored(_ account: String, _ commands: [SealedCommand], in world: CoreWorld) async throws -> Stored {
        let keys = commands.map { StoredCommandKey(account: AccountID(account), command: $0.descriptor.key) }
        return try await world.store.transact { store in
            let endpoints = try store.endpoints(of: AccountID(account))
            return Stored(
                endpoints: endpoints,
                registrations: try endpoints.flatMap { try store.registrations(of: $0.id) },
                vouchers: try endpoints.flatMap { try store.vouchers(for: $0.id) },
                commands: try keys.map { try store.command($0) }
            )
        }
    }

    @Test func noMessageAffectsAnotherAccount() async throws {
        let world = try await CoreWorld()
        let (sender, target) = (TestDevice(subject: "me"), TestDevice(subject: "me"))
        let outsider = TestDevice(subject: "you")
        let (near, far) = (try await world.open(sender), try await world.open(target))
        let (mine, theirs) = (try await world.account(of: sender), try await world.account(of: outsider))
        try await far.send(.publish(.init(ref: testRef(), registration: Blob(try target.registration(mine).encoded))))
        try await near.send(.watch(.init(ref: testRef())))
        var commands: [SealedCommand] = []
        for number in 1...3 {
            commands.append(try await world.command(from: sender, to: target, number: UInt64(number)))
            try await near.send(commands[number - 1])
        }
        try await far.send(
            .commandResult(
                .init(ref: testRef(), sender: sender.id, id: commands[2].header.id, receipt: try world.receipt(of: commands[2], by: target))
            )
        )
        _ = (near.peer.take(), far.peer.take())
        let before = try await stored(mine, commands, in: world)

        for role in [EndpointMessage.Hello.Role.host, .client] {
            let eve = try await world.open(outsider, role: role)
            try await eve.send(.watch(.init(ref: testRef())))
            let id = commands[0].header.id
            let ownReceipt = try world.receipt(of: commands[0], by: outsider)
            let stolenReceipt = try world.receipt(of: commands[0], by: target)
            let toTarget = try await world.command(from: outsider, to: target)
            let inTheirName = try await world.command(from: outsider, to: target, account: mine)
            let messages: [EndpointMessage] = [
                .publish(.init(ref: testRef(), registration: Blob(try target.registration(mine, version: 9).encoded))),
                .publish(.init(ref: testRef(), registration: Blob(try outsider.registration(mine).encoded))),
                .unpublish(.init(ref: testRef(), appID: "player")),
                .endpointUpdate(.init(ref: testRef(), record: Blob(try target.record(mine, version: 9).encoded))),
                .endpointUpdate(.init(ref: testRef(), record: Blob(try outsider.record(mine, version: 9).encoded))),
                try outsider.approval(of: target, account: theirs),
                try outsider.approval(of: target, account: mine),
                try outsider.revocation(of: target.id, account: theirs),
                try outsider.revocation(of: target.id, account: mine),
                .commandSend(.init(ref: testRef(), command: Blob(commands[0].encoded), again: true)),
                .commandSend(.init(ref: testRef(), command: Blob(toTarget.encoded))),
                .commandSend(.init(ref: testRef(), command: Blob(inTheirName.encoded))),
                .commandCancel(.init(ref: testRef(), id: id)),
                .commandReceived(.init(sender: sender.id, id: id)),
                .commandResult(.init(ref: testRef(), sender: sender.id, id: id, receipt: ownReceipt)),
                .commandResult(.init(ref: testRef(), sender: sender.id, id: id, receipt: stolenReceipt)),
                .commandAcknowledge(.init(id: commands[2].header.id)),
                .tunnelOpen(.init(ref: testRef(), target: target.id, timeout: 1)),
                .notificationsRegister(.init(ref: testRef(), appID: "player", displayName: "P", channel: .polling(interval: nil))),
                .unwatch(.init(ref: testRef())),
                .watch(.init(ref: testRef())),
                .leaving(.init(ref: testRef(), reason: .shutdown)),
            ]
            var refused = 0
            for message in messages {
                let answers = try await eve.send(message)
                if answers.contains(where: { $0.failure != nil }) { refused += 1 }
                for answer in answers {
                    #expect(answer.offered == nil)
                    #expect(answer.status == nil)
                    if case .endpointAdded(let event) = answer { #expect(event.endpoint == outsider.id) }
                    if case .endpointUpdated(let event) = answer { #expect(event.endpoint == outsider.id) }
                    if case .endpointRemoved = answer { throw TestError("another endpoint was removed") }
                }
                #expect(try await stored(mine, commands, in: world) == before, "\(type(of: message.content).type)")
                #expect(try await near.receive().isEmpty, "\(type(of: message.content).type)")
                #expect(try await far.receive().isEmpty, "\(type(of: message.content).type)")
            }
            #expect(refused >= 11)
            // What is not there and what is another's look alike.
            let unknown = try await eve.send(outsider.revocation(of: TestDevice(subject: "x").id, account: theirs))
            #expect(try await eve.send(outsider.revocation(of: target.id, account: theirs)) == unknown)
        }
        #expect(theirs != mine)
        // Another endpoint of the account is no better.
        let third = try await world.open(TestDevice(subject: "me"))
        let id = commands[0].header.id
        #expect(try await third.send(.commandCancel(.init(ref: testRef(), id: id))).first?.failure?.code == .notFound)
        try await third.send(.commandReceived(.init(sender: sender.id, id: id)))
        try await third.send(.commandAcknowledge(.init(id: commands[2].header.id)))
        #expect(try await stored(mine, commands, in: world).commands == before.commands)
    }
}

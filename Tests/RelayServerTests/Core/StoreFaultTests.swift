// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

/// The store fails, once at every transaction of a command's way, before or after it has written.
@Suite struct StoreFaultTests {
    let sender = TestDevice(subject: "me")
    let target = TestDevice(subject: "me")

    /// Sender and target behave like their SDKs: they reconnect after a loss, and repeat what has no answer.
    private final class Parties {
        let world: CoreWorld
        let sender: TestDevice
        let target: TestDevice
        var near: Session
        var far: Session
        var outcomes: [RelayMessage.CommandStatus.Status] = []
        var isAccepted = false
        var isReceived = false
        var isSettled = false

        init(_ world: CoreWorld, _ sender: TestDevice, _ target: TestDevice) async throws {
            (self.world, self.sender, self.target) = (world, sender, target)
            self.near = try await world.open(sender)
            self.far = try await world.open(target)
        }

        func reconnect() async throws {
            if near.peer.closeCode != nil { try await openNear() }
            if far.peer.closeCode != nil { far = try await open(target) }
        }

        func openNear() async throws { near = try await open(sender) }

        private func open(_ device: TestDevice) async throws -> Session {
            do {
                return try await world.open(device)
            } catch {
                // The fault struck here; there is only one.
                return try await world.open(device)
            }
        }

        /// Hears what the relay says, and holds it against what is stored.
        func listen(_ command: SealedCommand, _ comment: Comment) async throws {
            let received = (near: try await near.receive(), far: try await far.receive())
            let row = try await world.row(command)
            for message in received.near {
                if message.isOK {
                    #expect(row != nil, comment)
                    isAccepted = true
                }
                if let failure = message.failure { #expect(failure.code == .unavailable && failure.mayHaveRun, comment) }
                switch message.status {
                case .attestedByTarget?, .attestedByRelay?: outcomes += [message.status].compactMap(\.self)
                case .step?, .waking?, nil: break
                }
            }
            for message in received.far {
                if message.offered != nil {
                    // Stored before it left: the relay can say neither `expired` nor `cancelled` any more.
                    switch row?.state {
                    case .offered?, .final?: break
                    case .stored?, nil: Issue.record(comment)
                    }
                    isReceived = true
                }
                if case .commandSettled = message {
                    if case .final? = row?.state {} else { Issue.record(comment) }
                    isSettled = true
                }
            }
        }

        func result(_ command: SealedCommand) throws -> EndpointMessage {
            let receipt = try world.receipt(of: command, by: target)
            return .commandResult(.init(ref: testRef(), sender: sender.id, id: command.header.id, receipt: receipt))
        }
    }

    @Test(arguments: [TestStore.Fault.before, .after]) func commandEndsOnceDespiteAStoreFault(_ fault: TestStore.Fault) async throws {
        var stepsWithoutFault = 0
        for step in 0..<16 {
            let world = try await CoreWorld()
            let parties = try await Parties(world, sender, target)
            let command = try await world.command(from: sender, to: target)
            let comment: Comment = "\(fault), transaction \(step)"
            let before = world.store.submitted
            world.store.fail(after: step, fault)

            _ = world.core.receive(.commandSend(.init(ref: testRef(), command: Blob(command.encoded))), on: parties.near.channel)
            try await parties.listen(command, comment)
            for _ in 0..<4 where !(parties.isAccepted && parties.isReceived) {
                try await parties.reconnect()
                if !parties.isAccepted {
                    let again = EndpointMessage.commandSend(.init(ref: testRef(), command: Blob(command.encoded), again: true))
                    _ = world.core.receive(again, on: parties.near.channel)
                }
                try await parties.listen(command, comment)
            }
            #expect(parties.isAccepted && parties.isReceived, comment)

            _ = world.core.receive(.commandReceived(.init(sender: sender.id, id: command.header.id)), on: parties.far.channel)
            try await parties.listen(command, comment)
            for _ in 0..<4 where !parties.isSettled {
                try await parties.reconnect()
                _ = world.core.receive(try parties.result(command), on: parties.far.channel)
                try await parties.listen(command, comment)
            }
            #expect(parties.isSettled, comment)
            for _ in 0..<4 where parties.outcomes.isEmpty {
                try await parties.openNear()
                try await parties.listen(command, comment)
            }
            #expect(Set(parties.outcomes).count == 1, comment)
            if before + step >= world.store.submitted { stepsWithoutFault += 1 }

            // The fault may still affect the last write; the sender then acknowledges again.
            try await parties.near.send(.commandAcknowledge(.init(id: command.header.id)))
            try await parties.openNear()
            try await parties.near.send(.commandAcknowledge(.init(id: command.header.id)))
            #expect(try await world.row(command) == nil, comment)
        }
        #expect(stepsWithoutFault < 16)
    }

    @Test func failedDirectoryRequestsChangeNothing() async throws {
        let world = try await CoreWorld()
        let account = try await world.account(of: sender)
        let watcher = try await world.open(target)
        let host = try await world.open(sender)
        try await watcher.send(.watch(.init(ref: testRef())))
        let requests: [EndpointMessage] = [
            .publish(.init(ref: testRef(), registration: Blob(try sender.registration(account).encoded))),
            .endpointUpdate(.init(ref: testRef(), record: Blob(try sender.record(account, version: 2).encoded))),
            try sender.approval(of: target, account: account),
            try sender.revocation(of: target.id, account: account),
            .leaving(.init(ref: testRef(), reason: .suspended)),
            .watch(.init(ref: testRef())),
        ]
        for request in requests {
            world.store.failAlways(true)
            _ = world.core.receive(request, on: host.channel)
            world.store.failAlways(false)
            let answer = try await host.receive()
            #expect(answer.compactMap(\.failure).map(\.code) == [.unavailable])
            #expect(answer.count == 1)
            #expect(try await watcher.receive().isEmpty)
        }
        #expect(watcher.peer.closeCode == nil)
        for request in requests.dropFirst(0).prefix(2) { #expect(try await host.send(request).first?.isOK == true) }
    }

    @Test func offerIsNotSentWhenStoringFails() async throws {
        let world = try await CoreWorld()
        let near = try await world.open(sender)
        let far = try await world.open(target)
        let command = try await world.command(from: sender, to: target)
        // Stored and offered in one: neither happens.
        world.store.fail(after: 0, .before)
        _ = world.core.receive(.commandSend(.init(ref: testRef(), command: Blob(command.encoded))), on: near.channel)
        #expect(try await near.receive().map(\.failure?.code) == [.unavailable])
        #expect(try await far.receive().isEmpty)
        #expect(try await world.row(command) == nil)

        // The last finds no room, and is offered when one is received.
        var commands = [command]
        for number in 2...17 as ClosedRange<UInt64> {
            commands.append(try await world.command(from: sender, to: target, number: number))
        }
        for command in commands { try await near.send(command) }
        #expect(try await far.receive().compactMap(\.offered) == commands.dropLast().map(\.encoded))
        world.store.fail(after: 1, .before)
        _ = world.core.receive(.commandReceived(.init(sender: sender.id, id: command.header.id)), on: far.channel)
        #expect(try await far.receive().isEmpty)
        #expect(far.peer.closeCode == 1013)
        #expect(try await world.row(commands[16])?.state == .stored)
        #expect(try await world.open(target).receive().compactMap(\.offered) == commands.dropLast().map(\.encoded))
    }
}

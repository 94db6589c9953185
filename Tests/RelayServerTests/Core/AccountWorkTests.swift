// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

/// What an account asks of the store, and answers.
@Suite struct AccountWorkTests {
    let sender = TestDevice(subject: "me")
    let target = TestDevice(subject: "me")

    private func actions(
        _ relay: inout AccountRelay,
        at now: Int64,
        _ input: (inout AccountRelay) -> Void
    ) -> [AccountRelay.Action] {
        relay.run(at: Milliseconds(clamping: now), input).actions
    }

    @Test func helloAsksForOneTransactionUntilItsRecordIsVerified() throws {
        var world = AccountWorld(of: sender)
        let hello = try sender.hello(world.account.rawValue)
        let channel = try world.connect(sender)
        guard
            case .admit(let asked, as: channel, isVerified: false, at: world.now)? = world.waiting.first
        else {
            throw TestError("another transaction")
        }
        #expect(asked.record == hello.record && world.waiting.count == 1)
        world.work()
        #expect(
            world.waiting.map { if case .admit(_, _, isVerified: true, _) = $0 { true } else { false } }
                == [true]
        )
    }

    @Test func requestsOfAChannelAreTransactionsWithTheirData() throws {
        var world = AccountWorld(of: sender)
        let (near, far) = (try world.connect(sender), try world.connect(target))
        world.settle()
        let (channel, host) = (try #require(world.channels[near]), try #require(world.channels[far]))
        let command = try world.command(from: sender, to: target)
        let key = StoredCommandKey(account: world.account, command: command.descriptor.key)
        let cases: [(ChannelID, EndpointMessage, AccountWork)] = [
            (near, .watch(.init(ref: testRef(1))), .watch(testRef(1), channel)),
            (near, .unwatch(.init(ref: testRef(2))), .unwatch(testRef(2), channel)),
            (
                near, .commandSend(.init(ref: testRef(3), command: Blob(command.encoded))),
                .send(command, .new, testRef(3), channel, host: far, sleeps: false)
            ),
            (
                far, .commandReceived(.init(sender: sender.id, id: command.header.id)), .received(key, host)
            ),
            (
                near, .commandCancel(.init(ref: testRef(4), id: command.header.id)),
                .cancel(.init(ref: testRef(4), id: command.header.id), channel)
            ),
            (near, .commandAcknowledge(.init(id: command.header.id)), .acknowledge(key, channel)),
            (
                near, .tunnelOpen(.init(ref: testRef(5), target: target.id, timeout: 9)),
                .openTunnel(.init(ref: testRef(5), target: target.id, timeout: 9), sleeps: false, channel)
            ),
        ]
        for (id, message, work) in cases {
            world.send(message, on: id)
            #expect(world.waiting == [work])
            world.settle()
        }
        world.disconnect(far)
        #expect(
            world.waiting
                == [.storeLoss(of: target.id, at: world.now)]
        )
        world.settle()
        world.send(cases[2].1, on: near)
        #expect(
            world.waiting == [.send(command, .new, testRef(3), channel, host: nil, sleeps: true)]
        )
    }

    /// The answer says what is stored, and comes after what the request has caused.
    @Test(arguments: [false, true]) func requestOfTheOperatorIsAnsweredAfterItsTransaction(
        fails: Bool
    ) throws {
        var world = AccountWorld(of: sender)
        let near = try world.connect(sender)
        world.settle()
        let channel = try #require(world.channels[near])
        let now = world.now
        var relay = world.relay
        let asked = actions(&relay, at: now) { $0.transact(.serve(.setDisabled(true), as: 7, left: nil)) }
        guard case .transact(let work)? = asked.first else { throw TestError("no transaction") }
        #expect(asked == [.transact(.serve(.setDisabled(true), as: 7, left: nil))])
        let execution = work.execution(of: world.account, relay.rules) { Milliseconds(clamping: now) }
        #expect(execution.run(world.rows) == nil)
        let done = actions(&relay, at: now) {
            _ = execution.complete(&$0, fails ? .unavailable("test") : nil)
        }
        let invalidated = RelayMessage.AuthInvalidated(
            code: .accountDisabled,
            message: "the relay's operator has disabled the account"
        )
        let closed: [AccountRelay.Action] = [
            .send(.authInvalidated(invalidated), to: near),
            .close(near, code: 1008, reason: ControlErrorCode.accountDisabled.rawValue), .forget(near),
        ]
        #expect(
            done
                == (fails
                    ? [.answer(7, .failure(.unavailable("test")))] : closed + [.answer(7, .success(.done))])
        )
        #expect(relay.channels.contains(channel.id) == fails)
    }
}

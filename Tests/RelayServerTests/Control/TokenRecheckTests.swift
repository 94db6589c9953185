// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

/// Tokens whose issuer is asked again while a channel is open.
@Suite struct TokenRecheckTests {
    private typealias Base = RelayChannelStateMachineTests

    private let issued: AcceptedToken = {
        var token = Base.token(3_600_000)
        token.recheck = 1_060_000
        return token
    }()

    private func open() throws -> RelayChannelStateMachine {
        var machine = Base.machine()
        _ = machine.opened(Base.at(0))
        _ = machine.received(try Base.helloFrame(), Base.at(0))
        _ = machine.tokenChecked(.success(issued), Base.at(0))
        _ = machine.coreAnswered(.success(AcceptedChannel(ChannelID(7))), Base.at(1))
        return machine
    }

    private func checks(_ actions: [RelayChannelStateMachine.Action]) -> Int {
        actions.count { if case .checkToken = $0 { true } else { false } }
    }

    private func invalidated(_ actions: [RelayChannelStateMachine.Action]) -> ControlErrorCode? {
        guard case .send(.authInvalidated(let invalidated)) = actions.first, case .close(code: 1008, _) = actions.last else { return nil }
        return invalidated.code
    }

    private func alive(_ machine: inout RelayChannelStateMachine, _ time: Int64) -> [RelayChannelStateMachine.Action] {
        machine.bytesArrived(Base.at(time))
        return machine.handleDeadlines(Base.at(time))
    }

    @Test func tokenIsCheckedAgainWhenDue() throws {
        var machine = try open()
        #expect(checks(alive(&machine, 59_999)) == 0)
        #expect(machine.deadline == 60_000)
        #expect(checks(alive(&machine, 60_000)) == 1)
        // One check at a time.
        #expect(checks(alive(&machine, 61_000)) == 0)
        #expect(try #require(machine.deadline) > 61_000)
        var again = issued
        again.recheck = 1_121_000
        _ = machine.tokenChecked(.success(again), Base.at(61_000))
        #expect(checks(alive(&machine, 120_999)) == 0)
        #expect(checks(alive(&machine, 121_000)) == 1)
    }

    @Test(arguments: [ControlErrorCode.tokenRevoked, .tokenInvalid, .wrongAudience, .endpointRevoked])
    func rejectedTokenEndsTheChannel(code: ControlErrorCode) throws {
        var machine = try open()
        _ = alive(&machine, 60_000)
        #expect(invalidated(machine.tokenChecked(.failure(TokenRejection(code: code, message: "")), Base.at(60_001))) == code)
        #expect(machine.isClosed)
    }

    @Test func tokenOfAnotherIdentityEndsTheChannel() throws {
        var machine = try open()
        _ = alive(&machine, 60_000)
        #expect(invalidated(machine.tokenChecked(.success(Base.token(3_600_000, subject: "bert")), Base.at(60_001))) == .wrongAccount)
    }

    @Test func channelSurvivesAnOutageUntilItsTokenExpires() throws {
        var machine = try open()
        var time: Int64 = 60_000
        var count = 0
        while !machine.isClosed, time < 4_000_000 {
            let actions = alive(&machine, time)
            if checks(actions) == 1 {
                count += 1
                _ = machine.tokenChecked(.failure(TokenRejection(code: .issuerUnavailable, message: "")), Base.at(time))
            }
            if machine.isClosed { #expect(invalidated(actions) == .tokenExpired) }
            time += 1_000
        }
        #expect(time == 3_601_000)
        #expect(count == 354)
    }

    @Test func removedScopesApplyToTheChannel() throws {
        var machine = try open()
        _ = alive(&machine, 60_000)
        var less = issued
        less.scopes = [.deviceRead]
        _ = machine.tokenChecked(.success(less), Base.at(60_001))
        let command = EndpointMessage.commandCancel(.init(ref: try Base.ref(1), id: CommandIDGenerator.any))
        guard case .send(.failure(let failure)) = try machine.received(Base.frame(command), Base.at(60_002)).first else {
            Issue.record("not refused")
            return
        }
        #expect(failure.code == .insufficientScope)
        for isAgain in [false, true] {
            let send = EndpointMessage.commandSend(.init(ref: try Base.ref(2), command: Blob([1]), again: isAgain))
            guard case .send(.failure(let failure)) = try machine.received(Base.frame(send), Base.at(60_003)).first else {
                Issue.record("not rejected")
                return
            }
            #expect(failure.code == .insufficientScope)
            #expect(failure.mayHaveRun == isAgain)
        }
    }

    @Test func refreshDuringACheckIsRejected() throws {
        var machine = try open()
        _ = alive(&machine, 60_000)
        let refresh = EndpointMessage.authRefresh(.init(ref: try Base.ref(1), token: Secret("new")))
        guard case .send(.failure(let failure)) = machine.received(try Base.frame(refresh), Base.at(60_001)).first else {
            Issue.record("not refused")
            return
        }
        #expect(failure.code == .tooManyRequests)
        var again = issued
        again.recheck = 1_121_000
        _ = machine.tokenChecked(.success(again), Base.at(60_002))
        #expect(checks(machine.received(try Base.frame(refresh), Base.at(60_003))) == 1)
        // The next check is of the new token, and of one that says all by its signature there is none.
        _ = machine.tokenChecked(.success(Base.token(3_600_000)), Base.at(60_004))
        #expect(checks(alive(&machine, 500_000)) == 0)
    }
}

extension CommandIDGenerator {
    fileprivate static var any: CommandID {
        var (ids, random) = (CommandIDGenerator(), SystemRandomNumberGenerator())
        return ids.next(now: 1_000_000, using: &random)
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Testing

@testable import DeviceRelay

@Suite struct AppServiceExchangeStateMachineTests {
    typealias Machine = AppServiceExchangeStateMachine<String, Int>

    private func run(_ handlers: Machine.CancelHandlers) -> [Int] {
        var ran: [Int] = []
        handlers.forEach { ran.append($0) }
        return ran
    }

    @Test func messageIsTakenOnce() {
        var machine = Machine(message: "hello")
        #expect(machine.message == "hello")
        #expect(machine.takeMessage(onCancel: nil) == "hello")
        #expect(machine.message == nil)
        #expect(machine.takeMessage(onCancel: 1) == nil)
        #expect(machine.dropMessage() == nil)
        #expect(run(machine.cancel()) == [], "what was not taken registers nothing")
    }

    @Test func droppedMessageCannotBeTaken() {
        var machine = Machine(message: "hello")
        machine.reserve(7)
        #expect(machine.dropMessage() == "hello")
        #expect(machine.takeMessage(onCancel: nil) == nil)
        #expect(machine.reservedBytes == 7, "until the exchange is gone")
    }

    @Test func cancelHandlersRunOnceAndInOrder() {
        var machine = Machine(message: "hello")
        _ = machine.takeMessage(onCancel: 1)
        #expect(machine.addCancelHandler(2) == false)
        #expect(machine.addCancelHandler(3) == false)
        #expect(!machine.isCancelled)
        #expect(run(machine.cancel()) == [1, 2, 3])
        #expect(machine.isCancelled)
        #expect(run(machine.cancel()) == [])
        #expect(machine.addCancelHandler(4) == true, "at once")
        #expect(machine.complete() == .cancelled)
    }

    @Test func cancelHandlersDoNotRunAfterCompletion() {
        var machine = Machine(message: "hello")
        _ = machine.takeMessage(onCancel: 1)
        #expect(machine.complete() == .send)
        #expect(machine.addCancelHandler(2) == false)
        #expect(run(machine.cancel()) == [])
        #expect(!machine.isCancelled)
        #expect(machine.complete() == .nothing)
        #expect(machine.fail() == .nothing)
        #expect(machine.beginAnswer() == false)
    }

    @Test func secondAnswerIsRejected() {
        var machine = Machine(message: "hello")
        #expect(machine.beginAnswer() == true)
        #expect(machine.beginAnswer() == false)
        #expect(machine.fail() == .nothing)
        machine.answerLeft()
        #expect(machine.beginAnswer() == false)
        machine.answerFailed()
        #expect(machine.beginAnswer() == false, "it has left")
    }

    @Test func failedAnswerAllowsAnotherAnswer() {
        var machine = Machine(message: "hello")
        #expect(machine.beginAnswer() == true)
        machine.answerFailed()
        #expect(machine.beginAnswer() == true)
        machine.answerFailed()
        #expect(machine.fail() == .send)
    }

    @Test func requestIsCancelledWhileItsAnswerIsSent() {
        var machine = Machine(message: "hello")
        _ = machine.takeMessage(onCancel: 1)
        #expect(machine.beginAnswer() == true)
        #expect(machine.addCancelHandler(2) == false)
        #expect(run(machine.cancel()) == [1, 2])
        #expect(machine.beginAnswer() == false)
        machine.answerLeft()
        #expect(machine.isCancelled)
        #expect(machine.complete() == .cancelled)
    }

    @Test func cancelledRequestMayBeAnswered() {
        var machine = Machine(message: "hello")
        _ = machine.cancel()
        #expect(machine.beginAnswer() == true)
        #expect(machine.beginAnswer() == false)
        machine.answerFailed()
        #expect(machine.beginAnswer() == true)
        #expect(machine.fail() == .cancelled)
    }

    @Test func cancelHandlersDoNotRunAfterTheHandlerReturns() {
        var machine = Machine(message: "hello")
        _ = machine.takeMessage(onCancel: 1)
        #expect(machine.beginAnswer() == true)
        #expect(machine.complete() == .nothing)
        #expect(run(machine.cancel()) == [], "its task handles another request")
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

/// Requests on their way from a connection to its app.
@Suite(.timeLimit(.minutes(10))) struct AppServiceInboxTests {
    /// A request with a number.
    private final class Request: AppServiceExchange {
        let number: Int
        let count: Shared<Int>
        let deadline: ContinuousClock.Instant? = nil
        private let state = Shared(false)

        init(_ number: Int, count: Shared<Int>) {
            self.number = number
            self.count = count
            count.withLock { $0 += 1 }
        }

        deinit { count.withLock { $0 -= 1 } }

        var isCancelled: Bool { state.value }
        func cancel() { state.withLock { $0 = true } }

        func onCancel(_ body: @escaping @Sendable () -> Void) {}
        func takeMessage(onCancel body: (@Sendable () -> Void)?) -> TakenMessage { .message([:]) }
        func reserveMemory() -> Bool { true }
        func respond(_ message: ValueSet) {}
        func fail(_ error: AppServiceError, isDecision: Bool) {}
        func complete(_ answer: HandlerAnswer) -> CompletedExchange { .answered }
        func sendCompleted(_ message: ValueSet) {}
    }

    private let count = Shared(0)

    private func next(_ inbox: AppServiceInbox) async -> Int? { (await inbox.next() as? Request)?.number }

    @Test func requestsAreDeliveredInOrder() async {
        let inbox = AppServiceInbox()
        for number in 0..<100 { inbox.deliver(Request(number, count: count)) }
        for number in 0..<100 { #expect(await next(inbox) == number) }
        #expect(count.value == 0)
    }

    @Test func eachWaiterGetsOneRequest() async {
        let inbox = AppServiceInbox()
        let numbers = await withTaskGroup(of: Int?.self) { group in
            for _ in 0..<20 { group.addTask { await next(inbox) } }
            for number in 0..<20 {
                if number % 3 == 0 { await Task.yield() }
                inbox.deliver(Request(number, count: count))
            }
            return await group.reduce(into: Set<Int>()) { if let number = $1 { $0.insert(number) } }
        }
        #expect(numbers == Set(0..<20))
        #expect(count.value == 0)
    }

    @Test func cancelledRequestsAreRemoved() async {
        let inbox = AppServiceInbox()
        let kept = Request(0, count: count)
        inbox.deliver(kept)
        for number in 1...10_000 {
            let request = Request(number, count: count)
            inbox.deliver(request)
            request.cancel()
            inbox.requestWasCancelled()
            #expect(count.value <= 3)
        }
        inbox.deliver(Request(10_001, count: count))
        #expect(await next(inbox) == 0)
        #expect(await next(inbox) == 10_001)
    }

    @Test func cancelledWaiterTakesNoRequest() async {
        let inbox = AppServiceInbox()
        // Before it waits, with a request that is there; and while it waits.
        inbox.deliver(Request(1, count: count))
        let late = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await next(inbox)
        }
        #expect(await late.value == nil)
        #expect(await next(inbox) == 1)
        for number in 0..<200 {
            let waiting = Task { await next(inbox) }
            if number % 2 == 0 { await Task.yield() }
            waiting.cancel()
            inbox.deliver(Request(number, count: count))
            // It has it, or the next one has.
            let taken = await waiting.value
            if taken == nil { #expect(await next(inbox) == number) } else { #expect(taken == number) }
        }
        #expect(count.value == 0)
    }

    @Test func closingEndsAllWaiters() async {
        let inbox = AppServiceInbox()
        await withTaskGroup(of: Int?.self) { group in
            for _ in 0..<10 { group.addTask { await next(inbox) } }
            await Task.yield()
            inbox.close(AppServiceClosure(.completed))
            for await number in group { #expect(number == nil) }
        }
        #expect(await next(inbox) == nil)
        #expect(inbox.closure.value?.status == .completed)
    }
}

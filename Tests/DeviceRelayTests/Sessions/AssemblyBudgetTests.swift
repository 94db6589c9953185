// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

@Suite struct AssemblyBudgetTests {
    static func budget(_ bytes: Int) -> AssemblyBudget {
        var limits = Limits()
        limits[.assemblyBytesPerEndpoint] = bytes
        return AssemblyBudget(limits: limits)
    }

    @Test func whoComesFirstIsServedFirst() {
        let budget = Self.budget(10)
        let served = Shared<[Int]>([])
        @Sendable func claim(_ bytes: Int) -> AssemblyBudget.Ticket? {
            budget.reserve(bytes) { served.withLock { $0.append(bytes) } }
        }
        #expect(claim(6) == nil)
        #expect(claim(8) != nil)
        // It would fit, and waits behind the larger one.
        #expect(claim(1) != nil)
        #expect(claim(4) != nil)
        #expect(budget.freeBytes == 4)
        budget.release(6)
        #expect(served.value == [8, 1])
        budget.release(8)
        #expect(served.value == [8, 1, 4])
        budget.release(1)
        budget.release(4)
        #expect(budget.freeBytes == 10)
    }

    @Test func whoLeavesTheLineMakesRoom() throws {
        let budget = Self.budget(10)
        let served = Shared<[Int]>([])
        #expect(budget.reserve(6) {} == nil)
        let large = try #require(budget.reserve(10) { served.withLock { $0.append(10) } })
        #expect(budget.reserve(3) { served.withLock { $0.append(3) } } != nil)
        budget.cancel(large)
        budget.cancel(large)
        #expect(served.value == [3])
        #expect(budget.freeBytes == 1)
    }
}

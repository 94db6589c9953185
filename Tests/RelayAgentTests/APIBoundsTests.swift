// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import Testing

@testable import RelayAgent

struct APIBoundsTests {
    private func token(_ id: String) -> Principal {
        .token(APIToken(id: id, name: id, scopes: [.launch], created: .now, expires: .now + 60))
    }

    private func isRefused(_ body: () throws -> Void) -> Int? {
        do {
            try body()
            return nil
        } catch {
            return (error as? APIRefusal)?.retryAfter ?? -1
        }
    }

    @Test func tokenHasItsOwnMinute() {
        let bounds = APIBounds()
        let start = ContinuousClock.now
        for number in 0..<60 { #expect(isRefused { try bounds.admit(.launch, token("a"), at: start) } == nil, "\(number)") }
        #expect(isRefused { try bounds.admit(.launch, token("a"), at: start + .seconds(20)) } == 41)
        #expect(isRefused { try bounds.admit(.call, token("a"), at: start) } == nil)
        #expect(isRefused { try bounds.admit(.launch, token("b"), at: start) } == nil)
        #expect(isRefused { try bounds.admit(.launch, token("a"), at: start + .seconds(60)) } == nil)
        for _ in 0..<1_000 { #expect(isRefused { try bounds.admit(.launch, .owner, at: start) } == nil) }
    }

    @Test func streamsOfOneTokenLeaveSomeToOthers() {
        let bounds = APIBounds()
        for _ in 0..<8 { #expect(isRefused { try bounds.beginStream(token("a")) } == nil) }
        #expect(isRefused { try bounds.beginStream(token("a")) } == 15)
        for _ in 0..<8 { #expect(isRefused { try bounds.beginStream(.owner) } == nil) }
        #expect(isRefused { try bounds.beginStream(token("b")) } == 15)
        bounds.streamEnded(token("a"))
        #expect(isRefused { try bounds.beginStream(token("b")) } == nil)
        #expect(isRefused { try bounds.beginStream(token("a")) } == 15, "all are taken")
    }

    @Test func twoLargeCalls() {
        let bounds = APIBounds()
        var slots: [Slots.Slot] = []
        #expect((0..<3).map { _ in isRefused { slots.append(try bounds.largeCall()) } } == [nil, nil, 1])
        slots.removeFirst()
        #expect(isRefused { slots.append(try bounds.largeCall()) } == nil)
    }
}

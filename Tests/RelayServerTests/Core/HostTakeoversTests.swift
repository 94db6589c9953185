// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

@Suite struct HostTakeoversTests {
    private func instance(_ number: UInt8) -> Blob<BlobKinds.Instance> { Blob([UInt8](repeating: number, count: 16)) }

    /// A class, so that an expectation may call a mutating method.
    private final class Host {
        private(set) var takeovers = HostTakeovers()

        func open(
            _ instance: Blob<BlobKinds.Instance>,
            insteadOf others: [Blob<BlobKinds.Instance>] = [],
            at now: Milliseconds = 0
        ) -> Bool {
            takeovers.opened(instance, insteadOf: others, at: now)
            return takeovers.contestedUntil(at: now) != nil
        }
    }

    @Test func newProcessAfterAnotherIsUsual() {
        let host = Host()
        #expect(!host.open(instance(0)))
        #expect(host.takeovers.isEmpty)
        for number in UInt8(1)...100 { #expect(!host.open(instance(number), insteadOf: [instance(number - 1)])) }
    }

    @Test func processThatComesBackShowsACopy() {
        let host = Host()
        _ = host.open(instance(1))
        #expect(!host.open(instance(2), insteadOf: [instance(1)]))
        #expect(host.open(instance(1), insteadOf: [instance(2)], at: 60_000))
        // Also while nobody takes over, for a day.
        #expect(host.open(instance(1), at: 3_600_000))
        #expect(host.open(instance(2), insteadOf: [instance(1)], at: 7_200_000))
        #expect(!host.open(instance(2), at: Milliseconds(clamping: Int64(7_200_000 + 24 * 3_600_000))))
    }
}

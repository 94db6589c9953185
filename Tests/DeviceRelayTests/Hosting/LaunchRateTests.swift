// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

@Suite struct LaunchRateTests {
    private func device(_ number: UInt8) throws -> RemoteSystem.ID {
        RemoteSystem.ID(SystemID(digest: try #require(Digest256(bytes: [UInt8](repeating: number, count: 32)))))
    }

    /// A class, so that an expectation may call mutating methods.
    private final class Rate {
        private var rate = LaunchRate()
        var count: Int { rate.count }

        func admit(_ device: RemoteSystem.ID, isNew: Bool, perMinute: Int, at now: ContinuousClock.Instant) -> Bool {
            rate.admit(device, isNew: isNew, perMinute: perMinute, at: now)
        }
    }

    @Test func launchesOfADeviceAreLimitedPerMinute() throws {
        let rate = Rate()
        let (one, two, start) = (try device(1), try device(2), ContinuousClock.now)
        for _ in 1...6 { #expect(rate.admit(one, isNew: false, perMinute: 6, at: start)) }
        #expect(!rate.admit(one, isNew: false, perMinute: 6, at: start))
        // Another device has its own bucket.
        #expect(rate.admit(two, isNew: false, perMinute: 6, at: start))
        #expect(!rate.admit(one, isNew: false, perMinute: 6, at: start + .seconds(9)))
        #expect(rate.admit(one, isNew: false, perMinute: 6, at: start + .seconds(11)))
        #expect(!rate.admit(one, isNew: false, perMinute: 6, at: start + .seconds(12)))
    }

    @Test func newDevicesShareOneLimit() throws {
        let rate = Rate()
        let now = ContinuousClock.now
        let admitted = try (1...200).filter { rate.admit(try device($0), isNew: true, perMinute: 6, at: now) }
        #expect(admitted.count == 6)
        #expect(rate.count == 1)
        #expect(rate.admit(try device(1), isNew: false, perMinute: 60, at: now))
    }

    @Test func limitOfZeroAdmitsNothing() throws {
        let rate = Rate()
        #expect(!rate.admit(try device(1), isNew: true, perMinute: 0, at: .now))
        #expect(!rate.admit(try device(1), isNew: true, perMinute: 0, at: .now + .seconds(600)))
    }

    @Test func fullBucketsAreForgotten() throws {
        let rate = Rate()
        let now = ContinuousClock.now
        for number in UInt8(1)...100 { _ = rate.admit(try device(number), isNew: false, perMinute: 60, at: now) }
        #expect(rate.count == 100)
        _ = rate.admit(try device(1), isNew: false, perMinute: 60, at: now + .seconds(61))
        #expect(rate.count == 1)
    }
}

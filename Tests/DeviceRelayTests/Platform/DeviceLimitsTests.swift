// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

@Suite struct DeviceLimitsTests {
    private static var limits: [(WritableKeyPath<DeviceLimits, Int>, Limit)] {
        [
            (\.messageBytes, .messageBytes), (\.connectionsPerSession, .connectionsPerSession),
            (\.requestsPerConnection, .requestsPerConnection), (\.requestsPerSession, .requestsPerSession),
            (\.assemblyBytesPerSession, .assemblyBytesPerSession), (\.assemblyBytesPerEndpoint, .assemblyBytesPerEndpoint),
            (\.mailboxCommands, .mailboxCommands),
        ]
    }

    @Test func eachLimitSetsTheOneOfItsName() {
        for (path, limit) in Self.limits {
            var limits = DeviceLimits()
            #expect(limits[keyPath: path] == limit.defaultValue)
            limits[keyPath: path] = 7
            var expected = Limits()
            expected[limit] = 7
            #expect(limits.all == expected)
        }
    }

    @Test func valueOutsideTheRangeIsReplacedByTheNearest() {
        var limits = DeviceLimits()
        for (path, _) in Self.limits {
            limits[keyPath: path] = .min
            #expect(limits[keyPath: path] == 1)
            limits[keyPath: path] = .max
            #expect(limits[keyPath: path] == 1 << 30)
        }
    }
}

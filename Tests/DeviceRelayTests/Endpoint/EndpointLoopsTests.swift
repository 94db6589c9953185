// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOPosix
import Testing

@testable import DeviceRelay

struct EndpointLoopsTests {
    @Test func endpointsUseAllEventLoops() {
        let all = Set(MultiThreadedEventLoopGroup.singleton.makeIterator().map { ObjectIdentifier($0) })
        let taken = (0..<64 * all.count).map { _ in
            // Other code takes a loop each time.
            _ = MultiThreadedEventLoopGroup.singleton.next()
            return ObjectIdentifier(LocalEndpoint.nextLoop())
        }
        #expect(Set(taken) == all)
    }
}

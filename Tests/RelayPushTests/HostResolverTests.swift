// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch
import NIOCore
import RelayResolver
import Testing

@testable import RelayPush

@Suite(.timeLimit(.minutes(1))) struct HostResolverTests {
    /// As many slow names as all accounts but one can have on their way.
    @Test func slowNamesDelayNoOther() async throws {
        let limits = WakeQueue.Limits()
        let count = limits.perCredential - limits.perAccount
        let release = DispatchSemaphore(value: 0)
        let begun = AsyncStream.makeStream(of: Void.self)
        let resolver = HostResolver { host, port in
            if host == "slow.example" {
                begun.continuation.yield()
                release.wait()
            }
            return [try? SocketAddress(ipAddress: "192.0.2.1", port: port)].compactMap { $0 }
        }
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<count { group.addTask { #expect(await resolver.addresses(of: "slow.example", port: 443)?.count == 1) } }
            var starts = begun.stream.makeAsyncIterator()
            for _ in 0..<count { await starts.next() }
            #expect(await resolver.addresses(of: "push.example", port: 443)?.count == 1)
            for _ in 0..<count { release.signal() }
        }
    }

    @Test func lookupsHaveABound() async throws {
        let release = DispatchSemaphore(value: 0)
        let begun = AsyncStream.makeStream(of: Void.self)
        let resolver = HostResolver(maximumLookups: 4) { _, _ in
            begun.continuation.yield()
            release.wait()
            return []
        }
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<4 { group.addTask { _ = await resolver.addresses(of: "slow.example", port: 443) } }
            var starts = begun.stream.makeAsyncIterator()
            for _ in 0..<4 { await starts.next() }
            #expect(await resolver.addresses(of: "push.example", port: 443) == nil)
            for _ in 0..<4 { release.signal() }
        }
        // They end, and others have room again.
        release.signal()
        #expect(await resolver.addresses(of: "push.example", port: 443) == [])
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Testing

@testable import RelayAgent
@testable import RelayProtocol

@Suite struct NewDeviceQueueTests {
    private let start = ContinuousClock.now

    static func endpoint(_ number: UInt8, name: String = "Phone", address: String? = nil, inviter: String? = nil) throws -> NewEndpoint {
        let id = EndpointID(digest: try #require(Digest256(bytes: Array(repeating: number, count: 32))))
        let system = SystemID(digest: id.digest)
        return NewEndpoint(
            id: id,
            systemID: RemoteSystem.ID(system),
            accountID: "me",
            deviceName: name,
            kind: .phone,
            platform: .linux,
            joining: RemoteSystemJoining(
                Joining(time: Milliseconds(clamping: 1_793_000_000_000), address: address),
                isInviterRevoked: false
            ),
            inviterName: inviter,
            fingerprint: FingerprintWords(endpoint: id, system: system)
        )
    }

    private func notices(_ queue: inout NewDeviceQueue, after seconds: Int) -> [NewDeviceQueue.Notice] {
        var notices: [NewDeviceQueue.Notice] = []
        while let notice = queue.next(at: start + .seconds(seconds)) { notices.append(notice) }
        return notices
    }

    @Test func endpointIsNotifiedOnce() throws {
        let (one, two) = (try Self.endpoint(1), try Self.endpoint(2))
        var queue = NewDeviceQueue()
        #expect(queue.nextTime == nil)
        queue.set([one], at: start)
        #expect(notices(&queue, after: 0) == [])
        #expect(queue.nextTime == start + NewDeviceQueue.settling)
        #expect(notices(&queue, after: 3) == [.endpoint(one)])
        queue.set([one, two], at: start + .seconds(4))
        #expect(notices(&queue, after: 4) == [])
        #expect(notices(&queue, after: 7) == [.endpoint(two)])
        queue.set([one, two], at: start + .seconds(10_000))
        #expect(notices(&queue, after: 20_000) == [])
        // Also in another process.
        var later = NewDeviceQueue(notified: queue.notified)
        later.set([two, one], at: start)
        #expect(notices(&later, after: 10) == [])
        // An endpoint that is no longer new is forgotten.
        later.set([two], at: start)
        #expect(later.notified == [two.id])
    }

    @Test func endpointThatAnotherDeviceVouchesForIsNotNotified() throws {
        let one = try Self.endpoint(1)
        var queue = NewDeviceQueue()
        queue.set([one], at: start)
        #expect(notices(&queue, after: 1) == [])
        queue.set([], at: start + .seconds(1))
        #expect(notices(&queue, after: 100) == [])
        #expect(queue.nextTime == nil)
    }

    @Test func floodIsBounded() throws {
        var all: [NewEndpoint] = []
        for number in UInt8(1)...200 { all.append(try Self.endpoint(number)) }
        var queue = NewDeviceQueue()
        queue.set(all, at: start)
        let first = notices(&queue, after: 3)
        #expect(first.count == NewDeviceQueue.maximumPerHour + 1)
        #expect(first.last == .more(200 - NewDeviceQueue.maximumPerHour))
        // Other endpoints within the same hour.
        for number in UInt8(201)...255 { all.append(try Self.endpoint(number)) }
        queue.set(all, at: start + .seconds(10))
        for seconds in stride(from: 10, to: 3_600, by: 60) { #expect(notices(&queue, after: seconds) == []) }
        #expect(queue.nextTime == start + .seconds(3 + 3_600))
        #expect(notices(&queue, after: 3_603).count == NewDeviceQueue.maximumPerHour + 1)
        #expect(queue.notified.count == 255)
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import DeviceRelay

@Suite final class InterfaceAdvertisementsTests {
    private var advertisements = InterfaceAdvertisements()

    init() { advertisements.common = (7, { [] }) }

    private func name(on interface: Int) -> DNSName? { advertisements.on(interface).map { ServiceInstance.name(of: $0.labels) } }

    private func heard(_ names: [DNSName], on interface: Int) -> Bool { advertisements.heard(names, on: interface) }

    private func startOver() -> Bool { advertisements.startOver() }

    @Test func networkOfAnEarlierInterfaceGetsOneAdvertisement() throws {
        let (first, second) = (try #require(name(on: 2)), try #require(name(on: 5)))
        #expect(first != second)
        // What is heard of a later interface, or of this one, changes nothing.
        #expect(!heard([second], on: 2) && !heard([first], on: 2) && !heard([second], on: 5))
        // Nor do neighbours, with whatever names.
        #expect(!heard([.local(["_device-relay", "_tcp"]), .local(["other", "_device-relay", "_tcp"])], on: 5))
        #expect(heard([.local(["other"]), first], on: 5))
        #expect(name(on: 5) == nil && !heard([first], on: 5))
        // A third one that hears only the second, which says nothing there any more, goes on.
        #expect(name(on: 7) != nil && !heard([second], on: 7))
        // What was the same network is looked at anew, and the names stay.
        #expect(startOver() && !startOver())
        #expect(name(on: 2) == first && name(on: 5) == second)
    }

    @Test func anotherAdvertisementStartsOver() throws {
        let first = try #require(name(on: 2))
        #expect(name(on: 5) != nil && heard([first], on: 5))
        advertisements.common = (8, { [] })
        #expect(name(on: 5) != nil && name(on: 2) != first)
        advertisements.common = nil
        #expect(name(on: 2) == nil && !heard([first], on: 5))
    }
}

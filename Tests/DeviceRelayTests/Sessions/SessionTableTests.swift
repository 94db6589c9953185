// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol
import Testing

@Suite struct SessionTableTests {
    final class Session: Sendable {}

    static func ids() -> (smaller: EndpointID, larger: EndpointID) {
        let ids = [EndpointID(P256SigningKey().publicKey), EndpointID(P256SigningKey().publicKey)].sorted()
        return (ids[0], ids[1])
    }

    @Test func bothSidesUseTheSessionOfTheSmallerID() {
        let (smaller, larger) = Self.ids()
        let (ofSmaller, ofLarger) = (Session(), Session())
        for order in [false, true] {
            var (here, there) = (SessionTable<Session>(own: smaller), SessionTable<Session>(own: larger))
            for isOfSmaller in [order, !order] {
                here.add(isOfSmaller ? ofSmaller : ofLarger, with: larger, isOpenedHere: isOfSmaller)
                there.add(isOfSmaller ? ofSmaller : ofLarger, with: smaller, isOpenedHere: !isOfSmaller)
            }
            #expect(here.session(with: larger) === ofSmaller)
            #expect(there.session(with: smaller) === ofSmaller)
            here.remove(ofSmaller, with: larger)
            #expect(here.session(with: larger) === ofLarger)
        }
    }

    @Test func singleSessionIsUsed() {
        let (smaller, larger) = Self.ids()
        var table = SessionTable<Session>(own: smaller)
        #expect(table.session(with: larger) == nil)
        let theirs = Session()
        table.add(theirs, with: larger, isOpenedHere: false)
        #expect(table.session(with: larger) === theirs)
        #expect(table.session(with: smaller) == nil)
    }

    @Test func unusableSessionStandsInNobodysWay() {
        let (smaller, larger) = Self.ids()
        var table = SessionTable<Session>(own: larger)
        let (theirs, ours) = (Session(), Session())
        table.add(theirs, with: smaller, isOpenedHere: false)
        table.add(ours, with: smaller, isOpenedHere: true)
        #expect(table.session(with: smaller) === theirs)
        #expect(table.session(with: smaller) { $0 !== theirs } === ours)
        #expect(table.session(with: smaller) { _ in false } == nil)
    }

    @Test func newestSessionOfTheSameSideIsUsed() {
        let (smaller, larger) = Self.ids()
        var table = SessionTable<Session>(own: smaller)
        let sessions = (0..<3).map { _ in Session() }
        for session in sessions { table.add(session, with: larger, isOpenedHere: true) }
        #expect(table.count == 3)
        for session in sessions.reversed() {
            #expect(table.session(with: larger) === session)
            table.remove(session, with: larger)
            table.remove(session, with: larger)
        }
        #expect(table.count == 0)
        #expect(table.sessions.isEmpty)
        #expect(table.session(with: larger) == nil)
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol
import Testing

@testable import RelayServer

@Suite struct PresencesTests {
    static let start: Int64 = 1_000_000
    static let account = AccountID("account")
    static let rules = RelayRules(
        relay: RelayID(P256SigningKey().publicKey),
        limits: Limits(),
        databaseBegan: 0
    )

    private func row(hasHosted: Bool = true, departure: EndpointRow.Departure? = nil) -> EndpointRow {
        var row = EndpointRow.sample(1, Self.account)
        row.hasHosted = hasHosted
        row.departure = departure
        return row
    }

    private func instance(_ number: UInt8) -> Blob<BlobKinds.Instance> {
        Blob([UInt8](repeating: number, count: 16))
    }

    private func take(
        _ presences: inout Presences,
        _ row: EndpointRow,
        connected: Milliseconds? = nil,
        at time: Int64
    ) -> Taken {
        let taken = presences.take(
            of: row,
            nil,
            connected: connected,
            servedSince: Milliseconds(clamping: Self.start),
            Self.rules,
            at: Milliseconds(clamping: time)
        )
        return Taken(taken.presence.reason, taken.isNew, taken.until)
    }

    private struct Taken: Equatable {
        let reason: Presence.Reason?
        let isNew: Bool
        let until: Milliseconds?

        init(_ reason: Presence.Reason?, _ isNew: Bool, _ until: Milliseconds?) {
            self.reason = reason
            self.isNew = isNew
            self.until = until
        }
    }

    @Test func presenceIsToldWhenItIsNew() {
        var presences = Presences()
        #expect(take(&presences, row(hasHosted: false), at: Self.start) == Taken(.neverSeen, true, nil))
        #expect(
            take(&presences, row(hasHosted: false), at: Self.start) == Taken(.neverSeen, false, nil)
        )
        #expect(take(&presences, row(), connected: 7, at: Self.start) == Taken(.connected, true, nil))
        #expect(Array(presences.toldEndpoints) == [row().id])
        presences.remove(row().id)
        #expect(presences.isEmpty)
        #expect(take(&presences, row(), connected: 7, at: Self.start) == Taken(.connected, true, nil))
    }

    @Test func afterTheStartAnEndpointIsUnknownForAWhile() {
        var presences = Presences()
        let end = Self.start + Presences.startingPeriod
        #expect(take(&presences, row(), at: Self.start) == Taken(.relayStarting, true, Milliseconds(clamping: end)))
        #expect(presences.nextChange == Milliseconds(clamping: end))
        #expect(presences.takeDue(at: Milliseconds(clamping: end - 1)) == [])
        #expect(presences.takeDue(at: Milliseconds(clamping: end)) == [row().id])
        #expect(presences.nextChange == nil)
        #expect(take(&presences, row(), at: end) == Taken(.lost, true, nil))
        // A departure after the start is certain.
        #expect(
            take(&presences, row(departure: .init(reason: .suspended, time: Self.start)), at: Self.start)
                == Taken(.suspended, true, nil)
        )
    }

    @Test func lossIsKnownBeforeItIsStored() {
        var presences = Presences()
        presences.lost(row().id, at: Self.start + 5)
        #expect(take(&presences, row(), at: Self.start + 5) == Taken(.lost, true, nil))
        presences.connected(
            row().id,
            instance(1),
            insteadOf: [],
            at: Milliseconds(clamping: Self.start)
        )
        #expect(take(&presences, row(), at: Self.start + 6).reason == .relayStarting)
    }

    @Test func processThatComesBackMakesItContested() {
        var presences = Presences()
        let now = Milliseconds(clamping: Self.start)
        presences.connected(row().id, instance(1), insteadOf: [], at: now)
        presences.connected(row().id, instance(2), insteadOf: [instance(1)], at: now)
        #expect(take(&presences, row(), connected: now, at: Self.start).reason == .connected)
        presences.connected(row().id, instance(1), insteadOf: [instance(2)], at: now)
        // It is remembered without channels, too.
        presences.lastChannelClosed()
        #expect(presences.isEmpty)
        let contested = take(&presences, row(), connected: now, at: Self.start)
        #expect(contested.reason == .contested && contested.until == now + Milliseconds(86_400_000))
    }

    @Test func rowsAreReadOnceAtATime() {
        var presences = Presences()
        let ids = Set((1...3).map { EndpointRow.sample($0, Self.account).id })
        let first = Set(ids.prefix(1))
        #expect(presences.beginReading(first) == first)
        #expect(presences.beginReading(ids) == ids.subtracting(first))
        presences.endReading(ids)
        #expect(presences.isEmpty)
        presences.readAgain(first, at: 9)
        #expect(presences.nextChange == 9)
        #expect(presences.takeDue(at: 9) == first)
    }
}

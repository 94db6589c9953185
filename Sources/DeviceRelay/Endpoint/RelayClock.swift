// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The relay's clock, as far as is known; stored, so that a process begins with what the one before knew.
final class RelayClock {
    private let loop: EndpointLoop
    private let journal: Journal
    /// How far the relay's clock is ahead of the own one.
    private var offset: Int64

    init(_ loop: EndpointLoop, _ journal: Journal, offset: Int64) {
        self.loop = loop
        self.journal = journal
        self.offset = offset
    }

    var time: Int64 { loop.wallTime.addingReportingOverflow(offset).partialValue }

    /// The clocks of a target.
    var target: TargetClock { TargetClock(own: loop.wallTime, relay: time) }

    /// The relay has told its time.
    func set(_ time: Milliseconds) {
        let offset = time.count.subtractingReportingOverflow(loop.wallTime).partialValue
        self.offset = offset
        journal.writeLater { try $0.setRelayOffset(offset) }
    }
}

extension Journal {
    /// Writes what is learnt again if it is lost.
    func writeLater(_ body: @escaping @Sendable (JournalTransaction) throws -> Void) {
        write(body) { _ in }
    }
}

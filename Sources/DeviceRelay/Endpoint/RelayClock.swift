// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// An estimate of the relay's clock. The offset of the device's clock is stored, so that a new process starts with the last value. After the
/// relay has told its time, a change of the device's clock changes nothing.
final class RelayClock {
    private let loop: EndpointLoop
    private let journal: Journal
    /// The relay's time minus the local time, in milliseconds.
    private var offset: Int64
    /// The relay's time minus the steady time, in milliseconds; `nil` until the relay has told its time to this process.
    private var start: Int64?

    init(_ loop: EndpointLoop, _ journal: Journal, offset: Int64) {
        self.loop = loop
        self.journal = journal
        self.offset = offset
    }

    var time: Int64 {
        if let start { return start.addingReportingOverflow(loop.now).partialValue }
        return loop.wallTime.addingReportingOverflow(offset).partialValue
    }

    /// The hours since 1970, for the tags of advertisements.
    var hour: UInt32 { UInt32(clamping: time / 3_600_000) }

    /// The lowest number that a new command may have.
    var lowestNumber: UInt64 { CommandNumber.lowest(relayTime: time, ownTime: loop.wallTime) }

    /// The local and the relay's time, for `CommandTarget`.
    var target: TargetClock { TargetClock(own: loop.wallTime, relay: time) }

    /// Sets the relay's time from a message of the relay.
    func set(_ time: Milliseconds) {
        let offset = time.count.subtractingReportingOverflow(loop.wallTime).partialValue
        self.offset = offset
        start = time.count.subtractingReportingOverflow(loop.now).partialValue
        journal.writeLater { try $0.setRelayOffset(offset) }
    }
}

extension Journal {
    /// Writes without waiting. Use it only for data that can be obtained again if the write is lost.
    func writeLater(_ body: @escaping @Sendable (JournalTransaction) throws -> Void) {
        write(body) { _ in }
    }
}

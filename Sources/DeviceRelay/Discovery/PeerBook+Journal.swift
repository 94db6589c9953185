// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

extension PeerBook {
    /// Creates the book from the journal.
    init(
        own: EndpointID,
        directoryName: String,
        stored: JournalTransaction.OwnEndpoint,
        _ transaction: JournalTransaction
    ) throws {
        self.init(
            own: own,
            directoryName: directoryName,
            account: stored.account ?? "",
            pins: try Self.pins(transaction),
            approved: try transaction.approved(),
            revoked: try transaction.revoked(),
            shutOut: try transaction.shutOut(),
            inviter: stored.inviter,
            hasEnumerated: stored.hasEnumerated
        )
    }

    static func pins(_ transaction: JournalTransaction) throws -> [Pin] {
        try transaction.pins().map { pin in
            Pin(
                endpoint: pin.endpoint,
                record: pin.record,
                knowledge: pin.knowledge,
                registrations: try transaction.registrations(of: pin.endpoint)
            )
        }
    }
}

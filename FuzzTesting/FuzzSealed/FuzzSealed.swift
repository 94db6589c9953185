// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Decodes arbitrary bytes as a command, reply, receipt, record or another signed statement of a relay or peer, and as a join link: there
/// must be no trap.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    let bytes = Array(UnsafeBufferPointer(start: start, count: count))
    if let command = try? SealedCommand(decoding: bytes) {
        guard command.encoded == bytes, (try? command.open(with: [])) == nil else { fatalError("opened without a key") }
    }
    _ = try? SealedReply(decoding: bytes)
    _ = try? CommandBody(decoding: bytes, kind: .launch, limits: Limits())
    _ = try? CommandBody(decoding: bytes, kind: .message, limits: Limits())
    var book = RecordBook(account: "account-1")
    if let record = try? book.add(endpointRecord: bytes) {
        _ = try? book.set(appRegistrations: [bytes], of: record.payload.endpointID)
    }
    _ = try? Unverified<CommandReceipt>(decoding: bytes)
    _ = try? Unverified<Voucher>(decoding: bytes)
    _ = try? Unverified<Revocation>(decoding: bytes)
    if let link = try? JoinLink(parsing: String(decoding: bytes, as: UTF8.self), plainHTTP: .allowed) {
        guard (try? JoinLink(parsing: link.text, plainHTTP: .allowed)) == link else { fatalError("a link that is not what it says") }
    }
    return 0
}

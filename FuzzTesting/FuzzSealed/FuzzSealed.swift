// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Whatever a relay or a peer hands over as a command, reply, receipt or record: no trap.
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
    return 0
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// Whatever bytes come in: no trap, and what is read can be written and read again.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    let buffer = ByteBuffer(bytes: UnsafeBufferPointer(start: start, count: count))
    guard let message = try? ValueSet(decoding: buffer) else { return 0 }
    guard let encoded = try? message.encodedBytes(), let again = try? ValueSet(decoding: encoded), (try? again.encodedBytes()) == encoded
    else {
        fatalError("a message that was read cannot be written")
    }
    return 0
}

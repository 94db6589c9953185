// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// Decodes arbitrary bytes: there must be no trap, and a decoded value must survive encoding and decoding.
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

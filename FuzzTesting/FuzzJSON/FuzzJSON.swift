// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// Decodes arbitrary text: there must be no trap, and a decoded value must survive encoding and decoding, as JSON and as CBOR.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard let message = try? ValueSet(json: UnsafeBufferPointer(start: start, count: count)) else { return 0 }
    guard let text = try? message.json(), let again = try? ValueSet(json: text), (try? again.json()) == text,
        let encoded = try? message.encodedBytes(), (try? ValueSet(decoding: encoded)) != nil
    else {
        fatalError("a message that was read cannot be written")
    }
    return 0
}

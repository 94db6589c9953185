// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// Decodes an arbitrary frame as the relay and as an endpoint: there must be no trap, and a decoded message must survive encoding and
/// decoding.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    let frame = ByteBuffer(bytes: UnsafeBufferPointer(start: start, count: count))
    let limits = Limits()
    if case .message(let message) = try? EndpointMessage.decode(from: frame, limits: limits) {
        guard let again = try? message.encode(), (try? EndpointMessage.decode(from: again, limits: limits)) == .message(message) else {
            fatalError("a message that was read cannot be written")
        }
    }
    if let message = try? RelayMessage.decode(from: frame, limits: limits) {
        guard let again = try? message.encode(), (try? RelayMessage.decode(from: again, limits: limits)) == message else {
            fatalError("a message that was read cannot be written")
        }
    }
    return 0
}

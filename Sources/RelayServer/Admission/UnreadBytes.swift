// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

extension Channel {
    /// Whether the socket has unread bytes. Must be called on the event loop.
    var hasUnreadBytes: Bool {
        let hasBytes = try? pipeline.syncOperations.withUnsafeTransportIfAvailable { (socket: NIOBSDSocket.Handle) in
            var byte: UInt8 = 0
            return recv(socket, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) > 0
        }
        return hasBytes ?? false
    }
}

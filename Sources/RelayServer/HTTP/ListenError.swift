// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Why the relay cannot listen on an address. The description contains advice.
package struct ListenError: Error, Hashable, Sendable, CustomStringConvertible {
    package var address: ListenAddress
    package var errnoCode: CInt
    /// The setting that contains the address.
    var flag: String

    init(address: ListenAddress, errnoCode: CInt, setting: RelaySetting = .listen) {
        self.address = address
        self.errnoCode = errnoCode
        self.flag =
            switch setting {
            case .metricsListen: "--metrics-listen"
            case .tunnelListen: "--tunnel-listen"
            default: "--listen"
            }
    }

    /// `nil` for an unrelated error.
    init?(_ error: any Error, address: ListenAddress, setting: RelaySetting) {
        switch error {
        case let error as IOError: self.init(address: address, errnoCode: error.errnoCode, setting: setting)
        case is SocketAddressError, is SocketAddressError.UnknownHost:
            self.init(address: address, errnoCode: EADDRNOTAVAIL, setting: setting)
        default: return nil
        }
    }

    /// The command that names the program at a port.
    private static func search(_ port: Int) -> String {
        #if os(Linux)
        "ss -ltnp 'sport = :\(port)'"
        #else
        "lsof -nP -iTCP:\(port) -sTCP:LISTEN"
        #endif
    }

    package var description: String {
        switch errnoCode {
        case EADDRINUSE:
            "\(address) is in use by another program, which `\(Self.search(address.port))` names; stop it, or choose another port with \(flag)"
        case EADDRNOTAVAIL: "\(address) is not an address of this machine; choose another with \(flag)"
        case EACCES, EPERM: "this user may not listen on \(address); choose a port from 1024 up with \(flag)"
        default: "\(address) cannot be listened on (error \(errnoCode)); choose another with \(flag)"
        }
    }
}

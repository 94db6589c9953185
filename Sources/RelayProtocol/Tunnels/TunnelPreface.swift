// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The first bytes of a side on a tunnel's plain TCP connection: the tunnel's id and the side's token.
package struct TunnelPreface: Hashable, Sendable {
    package static let magic = Array("DRT1".utf8)
    package static let byteCount = magic.count + 16 + tokenByteCount
    package static let tokenByteCount = 32

    package var tunnel: TunnelID
    package var token: Secret<Blob<BlobKinds.TunnelToken>>

    package init(tunnel: TunnelID, token: Secret<Blob<BlobKinds.TunnelToken>>) {
        self.tunnel = tunnel
        self.token = token
    }

    /// Parses a complete preface; `nil` if it is invalid.
    package init?(bytes: some Collection<UInt8>) {
        let rest = bytes.dropFirst(Self.magic.count)
        guard bytes.count == Self.byteCount, bytes.starts(with: Self.magic), let tunnel = TunnelID(bytes: rest.prefix(16)) else {
            return nil
        }
        self.init(tunnel: tunnel, token: Secret(Blob(Array(rest.dropFirst(16)))))
    }

    package var bytes: [UInt8] { Self.magic + tunnel.bytes + token.exposed.bytes }
}

/// The relay's answer to a preface: one byte.
package enum TunnelStatus: UInt8, Hashable, Sendable, CaseIterable {
    /// Both sides are connected. All following bytes come from the other side.
    case paired = 0
    /// The token opens no tunnel: it is unknown, expired, in use, or of the other side. The status does not reveal which.
    case refused = 1
    /// The other side did not connect in time.
    case timedOut = 2
    /// One side or the relay cancelled the tunnel.
    case closed = 3
    /// This side has connected again.
    case replaced = 4
}

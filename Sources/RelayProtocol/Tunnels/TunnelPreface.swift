// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// What a side says first on a tunnel's plain TCP connection: which tunnel, and by what right.
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

    /// Reads a whole preface; `nil` if it is none.
    package init?(bytes: some Collection<UInt8>) {
        let rest = bytes.dropFirst(Self.magic.count)
        guard bytes.count == Self.byteCount, bytes.starts(with: Self.magic), let tunnel = TunnelID(bytes: rest.prefix(16)) else {
            return nil
        }
        self.init(tunnel: tunnel, token: Secret(Blob(Array(rest.dropFirst(16)))))
    }

    package var bytes: [UInt8] { Self.magic + tunnel.bytes + token.exposed.bytes }
}

/// The relay's one byte in answer to a preface.
package enum TunnelStatus: UInt8, Hashable, Sendable, CaseIterable {
    /// Both sides are there; from here on the bytes are the other side's.
    case paired = 0
    /// No tunnel is open to this token: it is unknown, over, in use, or of the other side. Which, is not told.
    case refused = 1
    /// The other side did not come in time.
    case timedOut = 2
    /// The tunnel is no longer wanted, by one side or by the relay.
    case closed = 3
    /// This side came anew.
    case replaced = 4
}

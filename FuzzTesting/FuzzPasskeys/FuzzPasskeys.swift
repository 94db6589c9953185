// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayIssuer
import RelayProtocol

/// Reads arbitrary bytes as what a browser sends of a passkey (WebAuthn): the authenticator's data, the client data, and a public key with a
/// signature. There must be no trap, and what was read must be what was sent. The first byte selects what is read.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 1 else { return 0 }
    let bytes = Array(UnsafeBufferPointer(start: start + 1, count: count - 1))
    switch start[0] % 4 {
    case 0: authenticatorData(bytes)
    case 1: clientData(bytes)
    case 2: key(bytes, algorithm: -7)
    default: key(bytes, algorithm: -257)
    }
    return 0
}

private func authenticatorData(_ bytes: [UInt8]) {
    guard let data = AuthenticatorData(parsing: bytes) else { return }
    var encoded = data.relyingParty.bytes + [data.flags]
    encoded += [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: data.counter >> $0) }
    guard bytes.starts(with: encoded) else { fatalError("other data") }
    guard !data.isVerified || data.flags & 0x05 == 0x05 else { fatalError("an absent user") }
    guard let credential = data.credential else {
        guard data.flags & 0x40 == 0 else { fatalError("the credential is lost") }
        return
    }
    guard data.flags & 0x40 != 0, (1...1_023).contains(credential.count), bytes[55...].starts(with: credential) else {
        fatalError("another credential")
    }
}

private func clientData(_ bytes: [UInt8]) {
    guard let json = try? JSONValue(parsing: bytes) else { return }
    _ = try? PasskeyClientData(json: json)
}

/// Two bytes are the length of the key, which is followed by the signature.
private func key(_ bytes: [UInt8], algorithm: Int) {
    guard bytes.count >= 2 else { return }
    let length = Int(bytes[0]) << 8 | Int(bytes[1])
    let (spki, signature) = (Array(bytes.dropFirst(2).prefix(length)), Array(bytes.dropFirst(2 + length)))
    guard let key = PasskeyKey(algorithm: algorithm, spki: spki) else { return }
    guard key.spki == spki, spki.count <= PasskeyKey.maximumBytes else { fatalError("another key") }
    _ = key.isValid(signature, for: Array("a message".utf8))
}

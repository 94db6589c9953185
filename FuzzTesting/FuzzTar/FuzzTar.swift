// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayServer

/// Decodes arbitrary bytes as the header of a file in a backup, as they are and with the magic and the checksum of a header: there must be no
/// trap, and what was decoded must encode to the same header again.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    let bytes = Array(UnsafeBufferPointer(start: start, count: count))
    check(bytes)
    var block = Array(bytes.prefix(TarHeader.blockBytes))
    block += [UInt8](repeating: 0, count: TarHeader.blockBytes - block.count)
    block.replaceSubrange(257..<265, with: Array("ustar\u{0}00".utf8))
    block[156] = UInt8(ascii: "0")
    block.replaceSubrange(148..<156, with: [UInt8](repeating: 0x20, count: 8))
    let sum = block.reduce(0) { $0 + Int($1) }
    block.replaceSubrange(148..<156, with: Array(String(sum + 0o1_000_000, radix: 8).utf8.suffix(6)) + [0, 0x20])
    check(block)
    return 0
}

private func check(_ block: [UInt8]) {
    guard let header = TarHeader(decoding: block) else { return }
    guard TarHeader(decoding: header.encoded(time: 0)) == header else { fatalError("another header") }
    guard (0..<TarHeader.blockBytes).contains(TarHeader.padding(of: header.size)) else { fatalError("a padding of more than a block") }
}

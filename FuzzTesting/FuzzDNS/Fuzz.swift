// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayServer

/// Reads an arbitrary answer of a name server: there must be no trap, and the texts that are found, written as an answer, are found again.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    let texts = DNSTexts.read(Array(UnsafeBufferPointer(start: start, count: count)))
    guard texts.reduce(0, { $0 + $1.count }) <= count else { fatalError("more was read than there is") }
    guard DNSTexts.read(answer(texts)) == texts else { fatalError("texts that were read cannot be read again") }
    return 0
}

/// An answer with one TXT record for each text.
private func answer(_ texts: [[UInt8]]) -> [UInt8] {
    var bytes: [UInt8] = [0, 0, 0x81, 0x80, 0, 0] + number(texts.count) + [0, 0, 0, 0]
    for text in texts {
        var data: [UInt8] = []
        for begin in stride(from: 0, to: text.count, by: 255) {
            let part = text[begin..<min(begin + 255, text.count)]
            data += [UInt8(part.count)] + part
        }
        // The root, type TXT, class IN, and the time to live.
        bytes += [0, 0, 16, 0, 1, 0, 0, 0, 0] + number(data.count) + data
    }
    return bytes
}

private func number(_ value: Int) -> [UInt8] { [UInt8(truncatingIfNeeded: value >> 8), UInt8(truncatingIfNeeded: value)] }

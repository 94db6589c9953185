// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// Reads an arbitrary bulk stream in pieces, or with 0xFF as the first byte the CBOR page of an offer: there must be no trap. What was read is
/// read again from its own encoding, and no name of an offer leads out of a folder.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 1 else { return 0 }
    let input = Array(UnsafeBufferPointer(start: start + 1, count: count - 1))
    if start[0] == 0xFF { offer(input) } else { stream(input, piece: 1 + Int(start[0])) }
    return 0
}

private func frames(_ input: [UInt8], piece: Int) -> [BulkFrame] {
    var (decoder, frames, rest) = (BulkFrameDecoder(), [BulkFrame](), ByteBuffer(bytes: input))
    while let bytes = rest.readSlice(length: min(piece, rest.readableBytes)), bytes.readableBytes > 0 {
        decoder.append(bytes)
        do { while let frame = try decoder.next() { frames.append(frame) } } catch { return frames }
    }
    return frames
}

private func stream(_ input: [UInt8], piece: Int) {
    let read = frames(input, piece: piece)
    var again = ByteBuffer()
    for frame in read { frame.write(to: &again) }
    guard frames(Array(again.readableBytesView), piece: 1 << 20) == read else { fatalError("frames that were read cannot be read again") }
}

private func offer(_ input: [UInt8]) {
    guard let message = try? ValueSet(decoding: input), let page = try? ValueSetDecoder().decode(ShareOffer.Page.self, from: message) else {
        return
    }
    var collector = ShareOfferCollector()
    guard let offer = try? collector.add(page) else { return }
    for name in offer.entries.flatMap(\.path) {
        guard !name.text.utf8.contains(UInt8(ascii: "/")), !name.text.utf8.contains(0), name.text != "..", name.text != "." else {
            fatalError("a name leads out of its folder")
        }
    }
    guard offer.bytes >= 0, offer.entries.count >= offer.tops.count else { fatalError("an offer cannot be counted") }
}

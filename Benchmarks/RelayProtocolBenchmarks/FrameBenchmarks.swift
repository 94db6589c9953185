// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayProtocol

/// Decoding frames from received bytes (large ones per byte, small ones per frame), and a whole call through both state machines.
func frameBenchmarks() throws -> [(title: String, measurements: [Measurement])] {
    let largeCount = 32
    let large = try encodedData(bytes: SessionWire.inlineBytes, count: largeCount)
    let requests = try encodedRequests(bytes: 128, count: 256)
    // The cost of copying the same bytes is the lower bound for any processing of a body.
    var copy = ByteBuffer()
    copy.reserveCapacity(large.readableBytes)
    return [
        (
            "decode \(largeCount) data frames of 32 KiB (\(large.readableBytes) bytes)",
            [
                Measurement("decode, each frame in one read", bytes: large.readableBytes) {
                    try decodeAll(large, pieces: SessionWire.headerBytes + SessionWire.inlineBytes, expecting: largeCount)
                },
                Measurement("decode, reads of 64,000 bytes", bytes: large.readableBytes) {
                    try decodeAll(large, pieces: 64_000, expecting: largeCount)
                },
                Measurement("memcpy", bytes: large.readableBytes) {
                    copy.clear()
                    copy.writeImmutableBuffer(large)
                },
            ]
        ),
        (
            "decode 256 requests of 128 bytes",
            [Measurement("decode, one read") { try decodeAll(requests, pieces: requests.readableBytes, expecting: 256) }]
        ),
    ]
}

private func decodeAll(_ stream: ByteBuffer, pieces: Int, expecting count: Int) throws {
    var stream = stream
    var decoder = SessionFrameDecoder()
    var frames = 0
    while let piece = stream.readSlice(length: min(pieces, stream.readableBytes)), piece.readableBytes > 0 {
        decoder.append(piece)
        while let frame = try decoder.next() {
            keep(frame)
            frames += 1
        }
    }
    precondition(frames == count)
}

private func encodedData(bytes: Int, count: Int) throws -> ByteBuffer {
    var buffer = ByteBuffer()
    let body = ByteBuffer(repeating: 7, count: bytes)
    for _ in 0..<count {
        let frame = SessionFrame(.data(body, of: .response, isLast: false), connection: SessionConnectionID(1), number: 1)
        SessionFrameEncoder.write(frame, to: &buffer)
    }
    return buffer
}

private func encodedRequests(bytes: Int, count: Int) throws -> ByteBuffer {
    var buffer = ByteBuffer()
    let message = ByteBuffer(repeating: 7, count: bytes)
    for number in 0..<UInt32(count) {
        let frame = SessionFrame(.request(.inline(message), timeLeft: nil), connection: SessionConnectionID(1), number: number + 1)
        SessionFrameEncoder.write(frame, to: &buffer)
    }
    return buffer
}

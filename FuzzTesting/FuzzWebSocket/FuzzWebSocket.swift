// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore
import RelayServer

/// Reads arbitrary bytes of a WebSocket client, on a control channel and in a tunnel: there must be no trap, and the result must not
/// depend on the pieces. The first byte selects their size.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 1 else { return 0 }
    let bytes = ByteBuffer(bytes: UnsafeBufferPointer(start: start + 1, count: count - 1))
    let piece = 1 + Int(start[0])
    let whole = bytes.readableBytes
    guard control(bytes, piece: whole) == control(bytes, piece: piece) else { fatalError("a control channel reads otherwise") }
    guard tunnel(bytes, piece: whole) == tunnel(bytes, piece: piece) else { fatalError("a tunnel reads otherwise") }
    return 0
}

private struct Outcome<Event: Equatable>: Equatable {
    var events: [Event] = []
    var payload = ByteBuffer()
    var violation: WebSocketReader.Violation?
}

private func control(_ bytes: ByteBuffer, piece: Int) -> Outcome<WebSocketReader.Event> {
    let maximumBytes = 4_096
    var bytes = bytes
    var outcome = Outcome<WebSocketReader.Event>()
    var reader = WebSocketReader(maximumMessageBytes: maximumBytes)
    do throws(WebSocketReader.Violation) {
        while let next = bytes.readSlice(length: min(piece, bytes.readableBytes)), next.readableBytes > 0 {
            reader.append(next)
            while let event = try reader.next() {
                if case .text(let message) = event, message.readableBytes > maximumBytes { fatalError("a message is too long") }
                outcome.events.append(event)
            }
        }
    } catch {
        outcome.violation = error
    }
    return outcome
}

private func tunnel(_ bytes: ByteBuffer, piece: Int) -> Outcome<TunnelFrameReader.Event> {
    var bytes = bytes
    var outcome = Outcome<TunnelFrameReader.Event>()
    var reader = TunnelFrameReader()
    do throws(WebSocketReader.Violation) {
        while var next = bytes.readSlice(length: min(piece, bytes.readableBytes)), next.readableBytes > 0 {
            while let event = try reader.next(&next, payload: &outcome.payload) { outcome.events.append(event) }
        }
    } catch {
        outcome.violation = error
    }
    return outcome
}

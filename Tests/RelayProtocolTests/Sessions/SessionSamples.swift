// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import NIOCore

@testable import RelayProtocol

func sessionBytes(_ count: Int, _ fill: UInt8 = 0xAB) -> ByteBuffer {
    ByteBuffer(repeating: fill, count: count)
}

func encodedSession(_ frames: [SessionFrame]) -> ByteBuffer {
    var buffer = ByteBuffer()
    for frame in frames { SessionFrameEncoder.write(frame, to: &buffer) }
    return buffer
}

/// A frame from its header fields.
func rawSessionFrame(_ type: UInt8, flags: UInt8 = 0, connection: UInt32 = 0, number: UInt32 = 0, length: Int? = nil, _ body: [UInt8] = [])
    -> ByteBuffer
{
    var buffer = ByteBuffer()
    buffer.writeInteger(UInt32(length ?? body.count))
    buffer.writeMultipleIntegers(type, flags, connection, number)
    buffer.writeBytes(body)
    return buffer
}

/// A sample of each frame type, and edge cases.
let sampleSessionFrames: [SessionFrame] = {
    let one = SessionConnectionID(1)
    var settings = SessionSettings()
    settings.features = ["streams", "later"]
    settings.messageBytes = 1 << 20
    var moving = SessionSettings()
    moving.features = ["move"]
    moving.session = SessionID(bytes: Array(0..<16))
    moving.move = SessionMove(number: 3, received: .max)
    return [
        SessionFrame(.settings(settings)),
        SessionFrame(.settings(moving)),
        SessionFrame(
            .open(
                SessionOpening(
                    serviceName: "photos",
                    appID: "com.example.photos",
                    callerAppID: "com.example.viewer",
                    timeLeft: .seconds(30)
                )
            ),
            connection: one
        ),
        SessionFrame(.open(SessionOpening(serviceName: "")), connection: SessionConnectionID(.max)),
        SessionFrame(.opened, connection: one),
        SessionFrame(.refused(SessionRejection(.notAuthorized, "ask the owner")), connection: one),
        SessionFrame(.request(.inline(sessionBytes(0)), timeLeft: nil), connection: one, number: 1),
        SessionFrame(.request(.inline(sessionBytes(128)), timeLeft: .milliseconds(23)), connection: one, number: 2),
        SessionFrame(.request(.inline(sessionBytes(1)), timeLeft: .milliseconds(24)), connection: one, number: 2),
        SessionFrame(.request(.announced(16 << 20), timeLeft: .milliseconds(UInt32.max)), connection: one, number: .max),
        SessionFrame(.request(.announced(32_769), timeLeft: nil), connection: one, number: 3),
        SessionFrame(.response(.inline(sessionBytes(300))), connection: one, number: 1),
        SessionFrame(.response(.announced(70_000)), connection: one, number: 2),
        SessionFrame(.error(SessionFailure(.failure, "äöü")), connection: one, number: 2),
        SessionFrame(.data(sessionBytes(1), of: .request, isLast: false), connection: one, number: 2),
        SessionFrame(.data(sessionBytes(33), of: .request, isLast: true), connection: one, number: 2),
        SessionFrame(.data(sessionBytes(40), of: .response, isLast: false), connection: one, number: 2),
        SessionFrame(.data(sessionBytes(2), of: .response, isLast: true), connection: one, number: 2),
        SessionFrame(.grant(.request), connection: one, number: 2),
        SessionFrame(.grant(.response), connection: one, number: 2),
        SessionFrame(.cancel, connection: one, number: 2),
        SessionFrame(.window(65_536), connection: one),
        SessionFrame(.ping(1)),
        SessionFrame(.pong(.max)),
        SessionFrame(.ack(7)),
        SessionFrame(.moved(.max)),
        SessionFrame(.close(SessionClosure(.completed)), connection: one),
        SessionFrame(.goaway(SessionGoAway(lastConnection: one))),
        SessionFrame(.goaway(SessionGoAway(lastConnection: one, code: 9, message: "why"))),
    ]
}()

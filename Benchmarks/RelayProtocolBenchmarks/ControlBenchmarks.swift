// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation
import NIOCore
import RelayProtocol

/// The messages for one launch on the control channels of sender and target.
func controlBenchmarks() throws -> [(title: String, measurements: [Measurement])] {
    let limits = Limits()
    let id = EndpointID(digest: Digest256(hashing: [1]))
    var (ids, random) = (CommandIDGenerator(), SystemRandomNumberGenerator())
    let command = ids.next(now: 1_700_000_000_000, using: &random)
    func blob<Kind>(_ count: Int) -> Blob<Kind> { Blob((0..<count).map { UInt8(truncatingIfNeeded: $0) }) }
    let sender = Introduction(record: blob(500), vouchers: [blob(250)])
    let said: [EndpointMessage] = [
        .commandSend(.init(ref: .first, command: blob(500))), .commandReceived(.init(sender: id, id: command)),
        .commandResult(.init(ref: .first, sender: id, id: command, receipt: blob(250))), .commandAcknowledge(.init(id: command)),
    ]
    let answered: [RelayMessage] = [
        .ok(.init(ref: .first, result: .init(state: .accepted))), .command(.init(command: blob(500), sender: sender)),
        .commandStatus(.init(id: command, status: .step(.delivered))), .commandSettled(.init(ref: .first, sender: id, id: command)),
        .commandStatus(.init(id: command, status: .attestedByTarget(blob(250), reply: nil))),
    ]
    let (saidFrames, answeredFrames) = (try said.map { try $0.encode() }, try answered.map { try $0.encode() })
    let texts = (saidFrames + answeredFrames).map { Data($0.readableBytesView) }
    return [
        (
            "the nine control messages of a launch",
            [
                Measurement("read") {
                    for frame in saidFrames { keep(try EndpointMessage.decode(from: frame, limits: limits)) }
                    for frame in answeredFrames { keep(try RelayMessage.decode(from: frame, limits: limits)) }
                },
                Measurement("written") {
                    for message in said { keep(try message.encode(limits: limits)) }
                    for message in answered { keep(try message.encode(limits: limits)) }
                },
                Measurement("read by Foundation's JSONSerialization") {
                    for text in texts { keep(try JSONSerialization.jsonObject(with: text)) }
                },
            ]
        )
    ]
}

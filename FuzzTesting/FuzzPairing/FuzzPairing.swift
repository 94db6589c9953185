// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What comes from outside in a pairing: with 0xFF as the first byte the text of a link, with 0xFE a typed code, with 0xFD the answers to a
/// caller, otherwise the requests to a device that shows. Each message is CBOR and follows its length in 2 bytes. There must be no trap, what
/// was read is read again from its own text or encoding, and nobody is paired.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 1 else { return 0 }
    let input = Array(UnsafeBufferPointer(start: start + 1, count: count - 1))
    switch start[0] {
    case 0xFF: link(String(decoding: input, as: UTF8.self))
    case 0xFE: code(String(decoding: input, as: UTF8.self))
    case 0xFD: caller(messages(input))
    default: offer(messages(input), pause: Int64(start[0]) * 100)
    }
    return 0
}

/// A generator whose numbers do not matter here.
private struct Counter: RandomNumberGenerator {
    var value: UInt64 = 1
    mutating func next() -> UInt64 {
        value &*= 6_364_136_223_846_793_005
        value &+= 1
        return value ^ value >> 32
    }
}

private let ids = (own: EndpointID(P256SigningKey().publicKey), peer: EndpointID(P256SigningKey().publicKey))

private func link(_ text: String) {
    guard let link = try? PairingLink(parsing: text) else { return }
    guard let again = try? PairingLink(parsing: link.text), again == link else { fatalError("a link cannot be read again") }
    guard link.text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else { fatalError("a link has a character that is not plain") }
}

private func code(_ text: String) {
    guard let code = PairingCode(parsing: text) else { return }
    guard PairingCode(parsing: code.text) == code, code.text.utf8.count == 9 else { fatalError("a code cannot be read again") }
}

private func messages(_ input: [UInt8]) -> [ValueSet] {
    var (messages, rest) = ([ValueSet](), input[...])
    while rest.count > 2 {
        let size = Int(rest.removeFirst()) << 8 | Int(rest.removeFirst())
        if let message = try? ValueSet(decoding: Array(rest.prefix(size))) { messages.append(message) }
        rest = rest.dropFirst(size)
    }
    return messages
}

private func read<Message: Codable & Equatable>(_ message: ValueSet) -> Message? {
    guard let read = try? ValueSetDecoder().decode(Message.self, from: message) else { return nil }
    guard let encoded = try? ValueSetEncoder().encode(read), let again = try? ValueSetDecoder().decode(Message.self, from: encoded),
        again == read
    else { fatalError("a message cannot be read again") }
    return read
}

private func caller(_ messages: [ValueSet]) {
    var random = Counter()
    let code = PairingCode(using: &random)
    guard var caller = try? CodePairing.Caller(code: code, own: ids.own, peer: ids.peer, at: 0, using: &random) else { return }
    for message in messages {
        guard let answer: PairingAnswer = read(message) else { continue }
        switch caller.receive(answer, at: 0, using: &random) {
        case .call(let request): guard request.value.count == PairingHash.byteCount else { fatalError("a value has another length") }
        case .paired: fatalError("a code was guessed")
        case .failed: break
        }
    }
}

private func offer(_ messages: [ValueSet], pause: Int64) {
    var (random, now, failures) = (Counter(), Int64(0), 0)
    var offer = PairingOffer(own: ids.own, at: 0, using: &random)
    for (number, message) in messages.enumerated() {
        guard let request: PairingRequest = read(message) else { continue }
        // Two connections, so that one can hinder the other.
        let asker = PairingOffer.Caller(ids.peer, connection: number % 5 == 4 ? 1 : 0)
        let reply = offer.receive(request, from: asker, at: Milliseconds(clamping: now), using: &random)
        for action in reply.actions {
            switch action {
            case .paired: fatalError("a code was guessed")
            case .show, .ended(.tooManyFailures): failures += 1
            case .ended(.timedOut): break
            }
        }
        guard (reply.answer.state == .accepted) == (reply.answer.value?.count == PairingHash.byteCount) else {
            fatalError("an answer has the wrong value")
        }
        now += pause
    }
    guard failures <= PairingOffer.maximumFailures else { fatalError("there are too many failures") }
}

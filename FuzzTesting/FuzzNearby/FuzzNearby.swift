// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// What a neighbour on the network sends: packets of multicast DNS, or with 0xFE and 0xFF as the first byte what a listener and a dialer get
/// before the handshake; with 0xFD the candidates of a peer, sealed or not. Each packet follows its length in 2 bytes. There must be no trap; what was read is read again from its own encoding, and every answer fits into a packet.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 1 else { return 0 }
    let input = Array(UnsafeBufferPointer(start: start + 1, count: count - 1))
    switch start[0] {
    case 0xFD: candidates(input)
    case 0xFE: listen(input)
    case 0xFF: dial(input)
    default: packets(input)
    }
    return 0
}

/// A generator whose numbers do not matter here.
private struct Counter: RandomNumberGenerator {
    var value: UInt64 = 1
    mutating func next() -> UInt64 {
        value &*= 6_364_136_223_846_793_005
        value &+= 1
        return value
    }
}

private func packets(_ input: [UInt8]) {
    guard let neighbour = IPAddress(bytes: [192, 0, 2, 7]), let own = IPAddress(bytes: [192, 0, 2, 1]) else { return }
    var random = Counter()
    var (browser, now) = (MulticastBrowser(), Int64(1_000))
    browser.want(true, at: now, using: &random)
    let instance = ServiceInstance(ServiceInstance.Labels(using: &random), port: 9, text: [Array("v=1".utf8)], addresses: [own])
    var responder = MulticastResponder(instance, at: now, using: &random)
    var rest = input[...]
    while rest.count > 2 {
        let size = Int(rest.removeFirst()) << 8 | Int(rest.removeFirst())
        let packet = Array(rest.prefix(size))
        rest = rest.dropFirst(size)
        now += 300
        if let message = try? DNSMessage(decoding: packet) {
            guard let again = try? DNSMessage(decoding: message.encoded()), again == message else {
                fatalError("a message that was read cannot be read again")
            }
            browser.received(message, from: neighbour, at: now)
            check(responder.received(message, isLegacy: rest.count % 2 == 1, at: now, using: &random))
        }
        for message in browser.tick(at: now) { check(message) }
        check(responder.tick(at: now))
    }
    for instance in browser.instances {
        guard instance.addresses.count <= MulticastBrowser.maximumAddresses else { fatalError("a host has too many addresses") }
        guard let advertisement = Advertisement(strings: instance.text) else { continue }
        guard Advertisement(strings: advertisement.strings) == advertisement else { fatalError("an advertisement cannot be read again") }
    }
    guard browser.instances.count <= MulticastBrowser.maximumInstances else { fatalError("there are too many instances") }
}

private func check(_ actions: [MulticastResponder.Action]) {
    for case .send(let message, _) in actions { check(message) }
}

private func check(_ message: DNSMessage) {
    guard message.encoded().count <= DNSMessage.maximumBytes else { fatalError("a message is too long for others") }
}

private let (listener, dialer) = (P256LinkKey(), P256LinkKey())
private let ids = (listener: EndpointID(P256SigningKey().publicKey), dialer: EndpointID(P256SigningKey().publicKey))

private func listen(_ input: [UInt8]) {
    guard let keys = try? PairKeys(listener, of: ids.listener, with: dialer.publicKey, of: ids.dialer) else { return }
    var random = Counter()
    var machine = KnockExchange.Listener(own: ids.listener, using: &random)
    for byte in input {
        switch machine.receive([byte], [ids.dialer: keys]) {
        case .more: continue
        case .known: fatalError("a proof was guessed")
        case .pairing, .refused: return
        }
    }
}

private func dial(_ input: [UInt8]) {
    guard let keys = try? PairKeys(dialer, of: ids.dialer, with: listener.publicKey, of: ids.listener) else { return }
    var random = Counter()
    var machine = KnockExchange.Dialer(own: ids.dialer, peer: ids.listener, keys: keys, using: &random)
    for byte in input {
        switch machine.receive([byte]) {
        case .more, .send: continue
        case .accepted, .refused: return
        }
    }
}

private func candidates(_ input: [UInt8]) {
    guard let keys = try? PairKeys(listener, of: ids.listener, with: dialer.publicKey, of: ids.dialer) else { return }
    var random = Counter()
    let tunnel = TunnelID(using: &random)
    var exchange = CandidateExchange(own: ids.listener)
    exchange.began(tunnel, with: ids.dialer)
    guard exchange.heard(TunnelCandidates(tunnel: tunnel, candidates: Blob(input)), keys: { _ in keys }) == nil else {
        fatalError("a seal was guessed")
    }
    guard let candidates = HostCandidates(content: input) else { return }
    guard candidates.port >= HostCandidates.firstPort, candidates.addresses.count <= HostCandidates.maximumAddresses,
        candidates.addresses.allSatisfy({ !$0.isLoopback && !$0.isMulticast && !$0.isLinkLocal })
    else { fatalError("a place that nobody may name") }
    guard let sealed = try? SealedCandidates(candidates, for: tunnel, from: ids.dialer, with: keys),
        let heard = exchange.heard(TunnelCandidates(tunnel: tunnel, candidates: sealed.blob), keys: { _ in keys }),
        heard.candidates == candidates
    else { fatalError("candidates that were read cannot be read again") }
}

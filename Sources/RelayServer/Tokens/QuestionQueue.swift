// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The order in which an issuer is asked about tokens. Clients that are not authenticated can cause questions with invented tokens, so:
/// * tokens that were valid before come first: they are those of open channels and of endpoints that reconnect;
/// * addresses take turns, and one address has a share of the questions under way;
/// * if too many wait, the newest one of the address with the most is given up, and of the tokens that were valid before only if no other
///   waits.
struct QuestionQueue {
    struct Bounds {
        /// Questions under way.
        var running = 64
        /// Of these, the questions of one address.
        var share = 16
        /// Questions that wait, of all addresses.
        var waiting = 1_024
    }

    /// Lines of waiting questions, one for each address. No line is empty.
    private struct Rotation {
        var lines: [String: [Digest256]] = [:]
        /// The addresses with a line: the next turn is the first one's.
        var order: [String] = []
        var count = 0

        mutating func append(_ question: Digest256, of address: String) {
            if lines[address] == nil { order.append(address) }
            lines[address, default: []].append(question)
            count += 1
        }

        /// Takes the next question of an address that may ask.
        mutating func next(_ mayAsk: (String) -> Bool) -> (Digest256, String)? {
            guard let index = order.firstIndex(where: mayAsk) else { return nil }
            let address = order.remove(at: index)
            guard let question = lines[address]?.removeFirst() else { return nil }
            count -= 1
            if lines[address]?.isEmpty ?? true { lines[address] = nil } else { order.append(address) }
            return (question, address)
        }

        /// Removes the newest question of the longest line.
        mutating func shorten() -> Digest256? {
            guard let address = order.max(by: { (lines[$0]?.count ?? 0) < (lines[$1]?.count ?? 0) }),
                let question = lines[address]?.popLast()
            else { return nil }
            count -= 1
            if lines[address]?.isEmpty ?? true {
                lines[address] = nil
                order.removeAll { $0 == address }
            }
            return question
        }
    }

    let bounds: Bounds
    private var known = Rotation()
    private var others = Rotation()
    private var running: [Digest256: String] = [:]
    private var shares: [String: Int] = [:]

    init(bounds: Bounds = Bounds()) { self.bounds = bounds }

    var waiting: Int { known.count + others.count }
    var underWay: Int { running.count }

    /// Adds a question that neither waits nor is under way.
    /// - Parameter isKnown: Whether the token was valid before.
    /// - Returns: The question that is given up for it, perhaps itself.
    mutating func add(_ question: Digest256, from address: String, isKnown: Bool) -> Digest256? {
        if isKnown { known.append(question, of: address) } else { others.append(question, of: address) }
        // Those that can begin do not wait.
        guard waiting > bounds.waiting + max(0, bounds.running - running.count) else { return nil }
        return others.shorten() ?? known.shorten()
    }

    /// Begins the next question, if one may begin now.
    mutating func next() -> Digest256? {
        guard running.count < bounds.running else { return nil }
        let mayAsk = { [shares, bounds] (address: String) in shares[address, default: 0] < bounds.share }
        guard let (question, address) = known.next(mayAsk) ?? others.next(mayAsk) else { return nil }
        running[question] = address
        shares[address, default: 0] += 1
        return question
    }

    /// A question has its answer, or failed.
    mutating func ended(_ question: Digest256) {
        guard let address = running.removeValue(forKey: question) else { return }
        let left = shares[address, default: 1] - 1
        shares[address] = left > 0 ? left : nil
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The members of an object as those messages have them that are read without `Decodable`. `nil` stands for all that is not just so: then
/// `Decodable` reads the message, and says what is wrong with it.
struct FrequentFields {
    let index: JSONIndex
    let limits: Limits
    /// Which node the object is.
    var object = 0

    func node(_ key: String) -> JSONIndex.Node? { index.member(key, of: object).map { index.nodes[$0] } }

    func has(_ key: String) -> Bool { index.member(key, of: object) != nil }

    func text(_ key: String) -> String? { node(key).flatMap { $0.kind == .string ? index.text($0) : nil } }

    func fields(_ key: String) -> FrequentFields? {
        guard let place = index.member(key, of: object), index.nodes[place].kind == .object else { return nil }
        return FrequentFields(index: index, limits: limits, object: place)
    }

    func blob<Kind>(_ key: String) -> Blob<Kind>? { node(key).flatMap { blob($0) } }

    func blobs<Kind>(_ key: String) -> [Blob<Kind>]? {
        guard let array = index.member(key, of: object), index.nodes[array].kind == .array else { return nil }
        var (blobs, place): ([Blob<Kind>], Int) = ([], array + 1)
        while place < index.nodes[array].next {
            guard let blob: Blob<Kind> = blob(index.nodes[place]) else { return nil }
            blobs.append(blob)
            place = index.nodes[place].next
        }
        return blobs
    }

    private func blob<Kind>(_ node: JSONIndex.Node) -> Blob<Kind>? {
        guard node.kind == .string, !node.hasEscapes else { return nil }
        return Blob(base64: index.bytes[node.start..<node.end], limits: limits)
    }

    var ref: RequestRef? {
        node("ref").flatMap { $0.kind == .number ? Int64(index.text($0)).flatMap { RequestRef($0) } : nil }
    }

    var id: CommandID? { text("id").flatMap { CommandID($0) } }

    var sender: EndpointID? { text("sender").flatMap { EndpointID($0) } }
}

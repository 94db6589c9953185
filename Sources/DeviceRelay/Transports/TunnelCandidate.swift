// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Foundation

/// One entrance of a tunnel, as the relay names it.
enum TunnelCandidate: Hashable, Sendable {
    /// Plain TCP: `tcp://host:port`.
    case socket(host: String, port: Int)
    /// A WebSocket at the relay, or at another node: a path, or an http or https URL.
    case webSocket(RelayAddress, path: String)

    /// - Parameters:
    ///   - text: The candidate's URL. Without a host it means the relay's own host.
    ///   - relay: The address of the relay that names the candidate.
    /// - Returns: `nil` if this version does not support the kind.
    init?(_ text: String, relay: RelayAddress) {
        guard let components = URLComponents(string: text, encodingInvalidCharacters: false) else { return nil }
        let host = components.host.flatMap { $0.isEmpty ? nil : $0 }
        switch components.scheme?.lowercased() {
        case "tcp":
            guard let port = components.port, (1...65535).contains(port) else { return nil }
            self = .socket(host: host.map { Self.withoutBrackets($0).lowercased() } ?? relay.host, port: port)
        case nil, "http", "https", "ws", "wss":
            guard host != nil else {
                guard components.percentEncodedPath.utf8.first == UInt8(ascii: "/") else { return nil }
                self = .webSocket(relay, path: relay.basePath + components.percentEncodedPath)
                return
            }
            // Plain HTTP is permitted: the stream is encrypted between the endpoints, and a stolen tunnel token does not give access to a
            // session.
            guard let url = components.url, let address = try? RelayAddress(url, allowsPlaintext: true) else { return nil }
            self = .webSocket(address, path: address.basePath)
        default: return nil
        }
    }

    /// The host of the entrance.
    var host: String {
        switch self {
        case .socket(let host, _): host
        case .webSocket(let address, _): address.host
        }
    }

    private static func withoutBrackets(_ host: String) -> String {
        host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
    }
}

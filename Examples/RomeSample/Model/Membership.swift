// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation

/// The relay of this installation, and how it signed in. The platform stores the account and its keys, but not where its relay is.
struct Membership: Codable, Hashable, Sendable {
    enum Way: String, Codable { case link, browser }

    var relay: URL
    /// The relay's id; `nil` if its web certificate identifies it.
    var relayID: String?
    var way: Way

    init(_ link: JoinLink) throws(AddressError) {
        guard let relay = Self.url(link.origin) else { throw AddressError(reason: "the link's address is none") }
        (self.relay, relayID, way) = (relay, "\(link.relay)", .link)
    }

    /// - Parameter address: The relay's address as its operator gives it: `https://relay.example`, or with its id,
    ///   `https://192.0.2.1:8080/#relay=ID`.
    init(address: String) throws(AddressError) {
        let text = address.trimmingCharacters(in: .whitespacesAndNewlines)
        guard let parts = URLComponents(string: text, encodingInvalidCharacters: false), parts.scheme == "https" || parts.scheme == "http"
        else { throw AddressError(reason: "a relay's address begins with https://") }
        guard let host = parts.host, !host.isEmpty, parts.user == nil, parts.password == nil, parts.query == nil,
            parts.path.isEmpty || parts.path.utf8.elementsEqual("/".utf8)
        else { throw AddressError(reason: "a relay's address is a host, perhaps with a port, and nothing else") }
        if let fragment = parts.fragment {
            guard fragment.utf8.starts(with: "relay=".utf8), let id = RelayID(String(fragment.dropFirst("relay=".count))) else {
                throw AddressError(reason: "the part after # must be relay= and the relay's id")
            }
            relayID = "\(id)"
        }
        var bare = parts
        (bare.fragment, bare.path) = (nil, "")
        guard let relay = bare.url else { throw AddressError(reason: "this is no address") }
        (self.relay, way) = (relay, .browser)
    }

    func settings(_ system: SampleSystem) -> ConnectedDevicesPlatformSettings {
        var settings = ConnectedDevicesPlatformSettings(
            relay: relay,
            relayID: relayID.flatMap { RelayID($0) },
            storageDirectory: system.directory.appending(path: "storage")
        )
        system.configure(&settings)
        return settings
    }

    private static func url(_ text: String) -> URL? { URL(string: text, encodingInvalidCharacters: false) }
}

/// Why a text is not the address of a relay.
struct AddressError: Error { let reason: String }

/// The file of the membership.
struct MembershipFile {
    private let url: URL

    init(in directory: URL) { url = directory.appending(path: "membership.json") }

    /// `nil` if this installation has no account, or the file is damaged: the person then signs in again.
    func read() -> Membership? {
        guard let data = try? Data(contentsOf: url) else { return nil }
        return try? JSONDecoder().decode(Membership.self, from: data)
    }

    func write(_ membership: Membership) throws {
        try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
        try JSONEncoder().encode(membership).write(to: url, options: .atomic)
    }

    func remove() { try? FileManager.default.removeItem(at: url) }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The path at which a browser finds the issuer's pages, and to which it sends its cookies.
///
/// With TLS, this is the issuer's path, and cookies are bound to the host (`__Host-`). Without TLS, the relay is at a loopback address, and
/// browsers send cookies to every port of a host, which includes programs of the machine's other users. So each visit gets a path of its
/// own that only this browser knows, and its cookies go only to this path. A new secret, such as that of a sign-in, always begins a new
/// path, because another program may have sent the browser to the former one.
struct VisitAddress: Hashable, Sendable {
    /// The pattern of the paths of visits without TLS, below the issuer's path.
    static let pattern = "/at/{visit}"
    static let parameter = "visit"

    /// `nil` with TLS.
    private let key: String?

    /// - Parameter key: The key in the request's path; `nil` if it has none.
    /// - Returns: `nil` if the path is not that of a visit of the issuer.
    init?(at issuer: String, key: String?) {
        guard Visit.isSecure(issuer) == (key == nil) else { return nil }
        if let key { guard key.utf8.count == 22, Base64.url.decode(key)?.count == 16 else { return nil } }
        self.key = key
    }

    private init(key: String?) { self.key = key }

    /// Returns the address of a new visit.
    static func new(at issuer: String) -> VisitAddress {
        VisitAddress(key: Visit.isSecure(issuer) ? nil : Base64.url.encode(randomBytes(16)))
    }

    /// The path before the places of pages, such as `/account`.
    var path: String { Issuer.path + (key.map { "/at/\($0)" } ?? "") }

    /// Returns the name of a cookie. It contains the key, because programs at other ports can set cookies for the whole host, but do not
    /// know the key.
    func cookie(_ name: String) -> String { key.map { "\(name)-\($0)" } ?? "__Host-\(name)" }

    /// Returns the attributes of a cookie.
    func attributes(seconds: Int64) -> String {
        let life = key == nil || seconds == 0 ? "; Max-Age=\(seconds)" : ""
        return "; Path=\(key == nil ? "/" : path)\(life); HttpOnly; SameSite=Lax" + (key == nil ? "; Secure" : "")
    }
}

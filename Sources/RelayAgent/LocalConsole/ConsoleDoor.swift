// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import Foundation
import RelayProtocol
import Synchronization

/// The local console of a running agent: its port, keys and sessions.
final class ConsoleDoor: Sendable {
    private let access = CurrentValue(ConsoleAccess())
    private let openPort = Mutex<Int?>(nil)

    /// Called when a session has ended, so that what it reads ends, too.
    private let sessionEnded: @Sendable () -> Void

    init(sessionEnded: @escaping @Sendable () -> Void) { self.sessionEnded = sessionEnded }

    /// The authority of its URLs; `nil` before it is open. `localhost` is another place: it may lead to another user's `::1`.
    var authority: String? { openPort.withLock { $0 }.map { "127.0.0.1:\($0)" } }
    var origin: String? { authority.map { "http://\($0)" } }

    func opened(port: Int) { openPort.withLock { $0 = port } }

    struct NewKey: Sendable {
        var id: String
        /// It leads to the console, and works once.
        var url: String
        var expires: Date
        /// Whether an earlier key was used twice since the last one was made.
        var hasWarning: Bool
    }

    /// - Throws: `AgentError` before the console is open.
    func addKey() throws -> NewKey {
        guard let origin else { throw AgentError("consoleClosed", "the console is not open yet; try again", .failed) }
        let (id, key) = (Self.text(bytes: 9), Self.text(bytes: 16))
        var hasWarning = false
        access.update { access in
            hasWarning = access.hasWarning
            access.warned()
            access.add(key: APIToken.digest(of: key), id: id, at: .now)
        }
        let expires = Date.now + ConsoleAccess.keyLife / .seconds(1)
        return NewKey(id: id, url: "\(origin)/#key=\(key)", expires: expires, hasWarning: hasWarning)
    }

    /// Waits until a key is used or over.
    func key(_ id: String, within patience: Duration) async -> ConsoleAccess.KeyState {
        _ = await access.first(within: patience) { $0.state(ofKey: id, at: .now) != .unused }
        return access.value.state(ofKey: id, at: .now)
    }

    /// - Returns: The session and its token.
    /// - Throws: `APIRefusal`: `keyInvalid`, `keyUsedTwice`.
    func exchange(_ key: String) throws -> (ConsoleAccess.Session, token: String) {
        let (id, token) = (Self.text(bytes: 9), "drc_" + Self.text(bytes: 32))
        var result = ConsoleAccess.Exchange.invalid
        access.update { access in
            result = access.exchange(APIToken.digest(of: key), for: (id, APIToken.digest(of: token)), at: .now, date: .now)
        }
        switch result {
        case .begun(let session): return (session, token)
        case .usedTwice:
            sessionEnded()
            throw Self.usedTwice
        case .invalid:
            throw APIRefusal(401, AgentError("keyInvalid", "the link is over or was never made: relay console", .notSignedIn))
        }
    }

    /// - Throws: `APIRefusal`: `sessionOver`, `keyUsedTwice`.
    func session(_ token: String) throws -> ConsoleAccess.Session {
        switch access.value.credential(APIToken.digest(of: token), at: .now) {
        case .session(let session): return session
        case .endedByKey: throw Self.usedTwice
        case .invalid: throw APIRefusal(401, AgentError("sessionOver", "this session is over: relay console", .notSignedIn))
        }
    }

    var sessions: [ConsoleAccess.Session] { access.value.sessions(at: .now) }
    func isLive(_ session: String) -> Bool { access.value.isLive(session, at: .now) }

    /// - Returns: Whether there was one.
    func end(_ session: String) -> Bool {
        var found = false
        access.update { found = $0.end(session, at: .now) }
        if found { sessionEnded() }
        return found
    }

    private static let usedTwice = APIRefusal(
        401,
        AgentError(
            "keyUsedTwice",
            "the link was used twice, so another program of this machine may have had it; both sessions are over: relay console",
            .notSignedIn
        )
    )

    private static func text(bytes count: Int) -> String {
        Base64.url.encode((0..<count).map { _ in UInt8.random(in: .min ... .max) })
    }
}

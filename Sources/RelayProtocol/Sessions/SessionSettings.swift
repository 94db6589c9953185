// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The first frame of a side: its version, features and limits.
package struct SessionSettings: Hashable, Sendable {
    /// The highest supported version. All lower versions are supported too.
    package var version: Int
    /// Names of features beyond the version.
    package var features: [String]
    /// The size limit of a message.
    package var messageBytes: Int
    /// The session's id, if its opener offers the feature `move`.
    package var session: SessionID?
    /// On a further stream of a session: the move to it.
    package var move: SessionMove?
    /// The limit of connections, both directions together.
    package var connectionsPerSession: Int
    /// The limit of unfinished requests for each connection and direction.
    package var requestsPerConnection: Int
    /// The same limit over all connections.
    package var requestsPerSession: Int

    /// The settings of a side with these limits.
    package init(limits: Limits = Limits()) {
        self.version = SessionWire.version
        self.features = []
        // A message that exceeds a budget could never get a grant.
        self.messageBytes = min(limits[.messageBytes], limits.assemblyBytesPerPeer)
        self.connectionsPerSession = limits[.connectionsPerSession]
        self.requestsPerConnection = limits[.requestsPerConnection]
        self.requestsPerSession = limits[.requestsPerSession]
    }

    /// The settings that apply between two sides: the lower value of each.
    func agreed(with other: SessionSettings) -> SessionSettings {
        var agreed = self
        agreed.version = min(version, other.version)
        agreed.features = features.filter(other.features.contains)
        agreed.messageBytes = min(messageBytes, other.messageBytes)
        agreed.connectionsPerSession = min(connectionsPerSession, other.connectionsPerSession)
        agreed.requestsPerConnection = min(requestsPerConnection, other.requestsPerConnection)
        agreed.requestsPerSession = min(requestsPerSession, other.requestsPerSession)
        return agreed
    }

    private static var limits: [(Limit, WritableKeyPath<SessionSettings, Int>)] {
        [
            (.messageBytes, \.messageBytes), (.connectionsPerSession, \.connectionsPerSession),
            (.requestsPerConnection, \.requestsPerConnection), (.requestsPerSession, \.requestsPerSession),
        ]
    }

    init(_ map: ValueSet) throws(SessionError) {
        guard let version = map["version"]?.int, version >= 0 else { throw .invalidMetadata }
        self.init()
        self.version = version
        if let features = map["features"] {
            guard case .array(let names) = features else { throw .invalidMetadata }
            for name in names {
                guard let name = name.string else { throw .invalidMetadata }
                self.features.append(name)
            }
        }
        try setMove(map)
        guard let limits = map["limits"] else { return }
        guard case .valueSet(let values) = limits else { throw .invalidMetadata }
        for (limit, path) in Self.limits {
            guard let value = values[limit.rawValue] else { continue }
            guard let number = value.int, number >= 1 else { throw .invalidMetadata }
            self[keyPath: path] = number
        }
    }

    var map: ValueSet {
        let limits = ValueSet(Self.limits.map { (limit, path) in (limit.rawValue, .int(Int64(self[keyPath: path]))) })
        var map: ValueSet = [
            "version": .int(Int64(version)), "features": .array(features.map { .string($0) }), "limits": .valueSet(limits),
        ]
        if let session { map["session"] = .data(session.bytes) }
        if let move {
            map["move"] = .uint(move.number)
            map["received"] = .uint(move.received)
        }
        return map
    }

    private mutating func setMove(_ map: ValueSet) throws(SessionError) {
        if let value = map["session"] {
            guard let id = value.data.flatMap({ SessionID(bytes: $0) }) else { throw .invalidMetadata }
            session = id
        }
        guard map["move"] != nil || map["received"] != nil else { return }
        guard session != nil, let number = map["move"]?.uint64, let received = map["received"]?.uint64 else { throw .invalidMetadata }
        move = SessionMove(number: number, received: received)
    }
}

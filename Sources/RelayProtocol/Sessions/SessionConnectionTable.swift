// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// The connections of a session, sorted by id. Connections are accessed in place, by index.
struct SessionConnectionTable: Sendable {
    /// Valid until a connection is added or removed.
    typealias Index = Int

    private(set) var keys: [SessionConnectionID] = []
    /// Parallel to `keys`.
    var values: [SessionConnection] = []

    var count: Int { keys.count }
    var isEmpty: Bool { keys.isEmpty }
    var all: Zip2Sequence<[SessionConnectionID], [SessionConnection]> { zip(keys, values) }

    func index(forKey id: SessionConnectionID) -> Index? {
        let index = place(of: id)
        return index < keys.count && keys[index] == id ? index : nil
    }

    subscript(id: SessionConnectionID) -> SessionConnection? { index(forKey: id).map { values[$0] } }

    /// Adds a connection. Its id must not be in the table.
    mutating func insert(_ connection: SessionConnection, for id: SessionConnectionID) {
        let index = place(of: id)
        keys.insert(id, at: index)
        values.insert(connection, at: index)
    }

    mutating func removeValue(forKey id: SessionConnectionID) -> SessionConnection? {
        guard let index = index(forKey: id) else { return nil }
        keys.remove(at: index)
        return values.remove(at: index)
    }

    /// The position of an id, or the position at which to insert it.
    private func place(of id: SessionConnectionID) -> Index {
        var (low, high) = (0, keys.count)
        while low < high {
            let middle = low + (high - low) / 2
            if keys[middle] < id { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DequeModule

/// Items that wait. Their owners are served in rotation, so that one with many items delays no other. The items of one owner keep their
/// order.
package struct FairQueue<Owner: Hashable, Item> {
    private var lines: [Owner: Deque<Item>] = [:]
    /// The rotation: each owner with items, once.
    private var turns = Deque<Owner>()
    package private(set) var count = 0

    package init() {}

    package var isEmpty: Bool { turns.isEmpty }
    /// How many owners have items.
    package var ownerCount: Int { turns.count }

    package mutating func append(_ item: Item, of owner: Owner) {
        if lines[owner, default: []].isEmpty { turns.append(owner) }
        lines[owner, default: []].append(item)
        count += 1
    }

    /// Puts an item before the other items of its owner. An owner without items then goes first in the rotation.
    package mutating func prepend(_ item: Item, of owner: Owner) {
        if lines[owner, default: []].isEmpty { turns.prepend(owner) }
        lines[owner, default: []].prepend(item)
        count += 1
    }

    /// Removes the first item of the next owner, which goes to the end of the rotation. So do the owners that are passed over.
    /// - Parameter isReady: Whether an owner's first item may be taken.
    /// - Returns: `nil` if no owner has one that may.
    package mutating func removeFirst(where isReady: (Item) -> Bool = { _ in true }) -> Item? {
        for _ in 0..<turns.count {
            guard let owner = turns.popFirst(), let index = lines.index(forKey: owner) else { return nil }
            guard let first = lines.values[index].first, isReady(first) else {
                turns.append(owner)
                continue
            }
            lines.values[index].removeFirst()
            count -= 1
            if lines.values[index].isEmpty { lines.remove(at: index) } else { turns.append(owner) }
            return first
        }
        return nil
    }

    package mutating func removeAll(where isVoid: (Item) -> Bool) {
        for owner in turns {
            lines[owner]?.removeAll(where: isVoid)
            if lines[owner]?.isEmpty == true { lines[owner] = nil }
        }
        turns.removeAll { lines[$0] == nil }
        count = lines.values.reduce(0) { $0 + $1.count }
    }
}

extension FairQueue: Sendable where Owner: Sendable, Item: Sendable {}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

public import DequeModule

/// Items that wait. Their owners are served in rotation, so that one with many items delays no other. The items of one owner keep their
/// order.
public struct FairQueue<Owner: Hashable, Item> {
    @usableFromInline var lines: [Owner: Deque<Item>] = [:]
    /// The rotation: each owner with items, once.
    @usableFromInline var turns = Deque<Owner>()
    @usableFromInline var items = 0

    /// Creates an empty queue.
    @inlinable public init() {}

    /// Whether no item waits.
    @inlinable public var isEmpty: Bool { turns.isEmpty }
    /// How many items wait.
    @inlinable public var count: Int { items }
    /// How many owners have items.
    @inlinable public var ownerCount: Int { turns.count }

    /// Adds an item after the other items of its owner.
    @inlinable public mutating func append(_ item: Item, of owner: Owner) {
        lines[owner, default: []].append(item)
        if lines[owner]?.count == 1 { turns.append(owner) }
        items += 1
    }

    /// Puts an item before the other items of its owner. An owner without items then goes first in the rotation.
    @inlinable public mutating func prepend(_ item: Item, of owner: Owner) {
        lines[owner, default: []].prepend(item)
        if lines[owner]?.count == 1 { turns.prepend(owner) }
        items += 1
    }

    /// Removes the first item of the next owner, which goes to the end of the rotation. So do the owners that are passed over.
    /// - Parameter isReady: Whether an owner's first item may be taken.
    /// - Returns: `nil` if no owner has one that may.
    @inlinable public mutating func removeFirst(where isReady: (Item) -> Bool = { _ in true }) -> Item? {
        for _ in 0..<turns.count {
            guard let owner = turns.popFirst(), let index = lines.index(forKey: owner) else { return nil }
            guard let first = lines.values[index].first, isReady(first) else {
                turns.append(owner)
                continue
            }
            lines.values[index].removeFirst()
            items -= 1
            if lines.values[index].isEmpty { lines.remove(at: index) } else { turns.append(owner) }
            return first
        }
        return nil
    }

    /// Removes the items that are void.
    @inlinable public mutating func removeAll(where isVoid: (Item) -> Bool) {
        for owner in turns {
            lines[owner]?.removeAll(where: isVoid)
            if lines[owner]?.isEmpty == true { lines[owner] = nil }
        }
        turns.removeAll { lines[$0] == nil }
        items = lines.values.reduce(0) { $0 + $1.count }
    }
}

extension FairQueue: Sendable where Owner: Sendable, Item: Sendable {}

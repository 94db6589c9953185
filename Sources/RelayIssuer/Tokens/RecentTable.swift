// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A table by name that keeps the values that were set last. It holds between half of its capacity and all of it: a full generation replaces
/// the older one.
struct RecentTable<Value> {
    private let capacity: Int
    private var recent: [String: Value] = [:]
    private var older: [String: Value] = [:]

    init(capacity: Int) { self.capacity = capacity }

    var count: Int { recent.count + older.count }

    subscript(name: String) -> Value? {
        get { recent[name] ?? older[name] }
        set {
            older[name] = nil
            if newValue != nil, recent[name] == nil, recent.count >= max(1, capacity / 2) {
                older = recent
                recent = [:]
            }
            recent[name] = newValue
        }
    }
}

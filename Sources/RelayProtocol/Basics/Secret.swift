// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A value that must not appear in a log: neither `print`, interpolation, `dump` nor a debugger's summary shows it.
package struct Secret<Value: Hashable & Sendable>: Hashable, Sendable {
    /// The value itself.
    package let exposed: Value

    package init(_ value: Value) { self.exposed = value }
}

extension Secret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "(secret)" }
    package var debugDescription: String { "(secret)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

extension Secret: Codable where Value: Codable {
    package init(from decoder: any Decoder) throws { self.exposed = try Value(from: decoder) }
    package func encode(to encoder: any Encoder) throws { try exposed.encode(to: encoder) }
}

extension Secret: JSONReadable where Value: JSONReadable {
    package init(json: JSONValue) throws(JSONError) { self.exposed = try Value(json: json) }
}

extension Secret: JSONWritable where Value: JSONWritable {
    package func write(to json: inout JSONWriter) { exposed.write(to: &json) }
}

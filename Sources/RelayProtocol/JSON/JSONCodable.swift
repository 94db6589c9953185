// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A type that is read from JSON.
package protocol JSONReadable {
    init(json: JSONValue) throws(JSONError)
}

/// A type that is written as JSON.
package protocol JSONWritable {
    func write(to json: inout JSONWriter)
}

package typealias JSONCodable = JSONReadable & JSONWritable

/// A type that is an object in JSON.
package protocol JSONObjectWritable: JSONWritable {
    /// Writes the members, without the braces.
    func writeMembers(to json: inout JSONWriter)
}

extension JSONObjectWritable {
    package func write(to json: inout JSONWriter) { json.object { writeMembers(to: &$0) } }
}

package typealias JSONObjectCodable = JSONReadable & JSONObjectWritable

extension String: JSONCodable {
    package init(json: JSONValue) throws(JSONError) { self = try json.text() }
    package func write(to json: inout JSONWriter) { json.string(self) }
}

extension Bool: JSONCodable {
    package init(json: JSONValue) throws(JSONError) { self = try json.bool() }
    package func write(to json: inout JSONWriter) { json.word(self ? "true" : "false") }
}

extension Int64: JSONCodable {
    package init(json: JSONValue) throws(JSONError) { self = try json.integer() }
    package func write(to json: inout JSONWriter) { json.integer(self) }
}

extension Int: JSONCodable {
    package init(json: JSONValue) throws(JSONError) {
        guard let number = Int(exactly: try json.integer()) else { throw json.invalid }
        self = number
    }
    package func write(to json: inout JSONWriter) { json.integer(Int64(self)) }
}

extension Double: JSONReadable {
    package init(json: JSONValue) throws(JSONError) { self = try json.double() }
}

extension Array: JSONReadable where Element: JSONReadable {
    package init(json: JSONValue) throws(JSONError) {
        self = []
        for element in try json.array() { append(try Element(json: element)) }
    }
}

extension Array: JSONWritable where Element: JSONWritable {
    package func write(to json: inout JSONWriter) { json.array(self) }
}

// Names. The set of values is closed, or open if `init(rawValue:)` accepts any text. An open one is still the name of something in a
// program: programs compare it and people read it, so that it has only visible ASCII.
extension JSONReadable where Self: RawRepresentable<String> {
    package init(json: JSONValue) throws(JSONError) {
        let name = try json.text()
        guard ProgramText.isValid(name), let value = Self(rawValue: name) else { throw json.invalid }
        self = value
    }
}

extension JSONWritable where Self: RawRepresentable<String> {
    package func write(to json: inout JSONWriter) { json.string(rawValue) }
}

extension JSONReadable where Self: TextIdentifier {
    package init(json: JSONValue) throws(JSONError) {
        guard let value = Self(try json.text()) else { throw json.invalid }
        self = value
    }
}

extension JSONWritable where Self: TextIdentifier {
    package func write(to json: inout JSONWriter) { json.string(description) }
}

extension EndpointID: JSONCodable {}
extension RelayID: JSONCodable {}
extension CommandID: JSONCodable {}
extension TunnelID: JSONCodable {}

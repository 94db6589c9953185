// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import RelayProtocol

/// The JSON object that a client sends. A field is read once by its name; unknown fields are refused, because a misspelt one would silently
/// mean its default.
struct APIBody {
    private let json: JSONValue

    /// - Throws: `AgentError` with what is wrong and where.
    init(_ bytes: [UInt8], fields: Set<String>) throws {
        do throws(JSONError) {
            json = try JSONValue(parsing: bytes)
            let keys = try json.object().map(\.key)
            guard Set(keys).count == keys.count else { throw .malformed("a field is there twice") }
            let unknown = keys.filter { !fields.contains($0) }
            guard unknown.isEmpty else {
                throw .malformed("there is no field '\(unknown[0].prefix(40))'; there are \(fields.sorted().joined(separator: ", "))")
            }
        } catch {
            throw Self.failure(error)
        }
    }

    func required<Value: JSONReadable>(_ field: String) throws -> Value {
        do throws(JSONError) { return try json.member(field) } catch { throw Self.failure(error) }
    }

    func optional<Value: JSONReadable>(_ field: String) throws -> Value? {
        do throws(JSONError) { return try json.optional(field) } catch { throw Self.failure(error) }
    }

    /// A number of seconds within bounds.
    func seconds(_ field: String, in bounds: ClosedRange<Double>) throws -> Duration? {
        guard let seconds: Double = try optional(field) else { return nil }
        guard bounds.contains(seconds) else {
            throw AgentError("invalidBody", "\(field) must be \(bounds.lowerBound) to \(bounds.upperBound) seconds", .usage)
        }
        return .seconds(seconds)
    }

    /// The target of a command: a device, or one of its apps.
    func target() throws -> String {
        let device: String = try required("device")
        let app: String? = try optional("app")
        return app.map { "\(device)/\($0)" } ?? device
    }

    /// A field that is a JSON object, as it was sent.
    func source(of field: String) throws -> [UInt8] { (try required(field) as JSONValue).source }

    private static func failure(_ error: JSONError) -> AgentError { AgentError("invalidBody", "the body: \(error)", .usage) }
}

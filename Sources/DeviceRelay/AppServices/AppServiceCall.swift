// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A request to an app service as a type of one's own. It travels as a `ValueSet` of its coded fields, beside `Type` with the call's name.
public protocol AppServiceCall: Codable, Sendable {
    /// What the service answers.
    associatedtype Response: Codable & Sendable
    /// The call's name among those of the service, sent under the key `Type`.
    static var type: String { get }
}

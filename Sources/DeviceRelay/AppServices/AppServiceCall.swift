// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

/// A request to an app service as a Swift type. It is sent as a `ValueSet` with the type's coded fields, and with the call's name under the
/// key `Type`.
public protocol AppServiceCall: Codable, Sendable {
    /// The type of the service's response.
    associatedtype Response: Codable & Sendable
    /// The call's name, sent under the key `Type`. It is unique within the service.
    static var type: String { get }
}
